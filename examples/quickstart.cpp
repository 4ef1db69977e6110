#include <dovetail/dovetail.hpp>

#include <atomic>
#include <iostream>

int main() {
  // One file, no server. "postgresql://localhost/shop" works the same way.
  auto platform = dovetail::Platform::open("sqlite:quickstart.db", {.deploy_schema = true});

  // What to do with a message. Returning acks it, throwing tries it again later.
  std::atomic<bool> sent{false};
  platform.on("email.send", [&](const auto& message, auto& context) {
    std::cout << message.topic << " " << message.payload << "\n";
    // Written through the context's transaction, it commits together with the ack: exactly once.
    context.transaction().execute("update orders set mailed = 1 where item = $1", "a chisel");
    sent = true;
    sent.notify_one();
  });

  // Your rows and your messages: one transaction.
  auto tx = platform.begin();
  tx.execute("create table if not exists orders (item text, mailed integer default 0)");
  tx.execute("insert into orders (item) values ($1)", "a chisel");
  platform.outbox().enqueue(tx, {.topic = "email.send", .payload = R"({"order": "a chisel"})"});
  tx.commit();

  platform.start();  // workers, in this process or any other
  sent.wait(false);
  platform.stop();  // waits for handlers, gives back what none has begun
}
