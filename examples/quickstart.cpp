#include <dovetail/dovetail.hpp>

#include <iostream>

int main() {
  // One file, no server. "postgresql://localhost/shop" works the same way.
  auto platform = dovetail::Platform::open("sqlite:quickstart.db", {.deploy_schema = true});
  auto& outbox = platform.outbox();

  // Your rows and your messages: one transaction.
  auto tx = platform.begin();
  tx.execute("create table if not exists orders (item text)");
  tx.execute("insert into orders (item) values ($1)", "a chisel");
  outbox.enqueue(tx, {.topic = "email.send", .payload = R"({"order": "a chisel"})"});
  tx.commit();

  // A worker, in this process or any other: lease messages, do the work, ack.
  const auto me = dovetail::OwnerToken::generate();
  for (const auto& [message, claim, lease_until] : outbox.claim({.owner = me, .batch_size = 10})) {
    std::cout << message.topic << " " << message.payload << "\n";
    outbox.ack(me, {{claim}});
  }
}
