#include <dovetail/dovetail.hpp>

#include <atomic>
#include <iostream>

int main() {
  // SQLite needs no server. "postgresql://localhost/shop" works the same way.
  auto platform = dovetail::Platform::open("sqlite:quickstart.db", {.deploy_schema = true});

  // The handler of a topic. If it returns, the message is done; if it throws, it is retried later.
  std::atomic<bool> sent{false};
  platform.on("email.send", [&](const auto& message, auto& context) {
    std::cout << message.topic << " " << message.payload << "\n";
    // This write commits together with the ack of the message: it takes effect exactly once.
    context.transaction().execute("update orders set mailed = 1 where item = $1", "a chisel");
    sent = true;
    sent.notify_one();
  });

  // One transaction stores your row and the message: both, or neither.
  auto tx = platform.begin();
  tx.execute("create table if not exists orders (item text, mailed integer default 0)");
  tx.execute("insert into orders (item) values ($1)", "a chisel");
  platform.outbox().enqueue(tx, {.topic = "email.send", .payload = R"({"order": "a chisel"})"});
  tx.commit();

  platform.start();  // starts worker threads; other processes may work on the same database
  sent.wait(false);
  platform.stop();  // waits for running handlers; other messages stay stored
}
