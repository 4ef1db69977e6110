#include <dovetail/dovetail.hpp>

#include <iostream>

int main() {
  auto platform = dovetail::Platform::open("sqlite:consumer.db", {.deploy_schema = true});
  const auto owner = dovetail::OwnerToken::generate();
  platform.outbox().enqueue({.topic = "hello", .payload = "world"});
  for (const auto& each : platform.outbox().claim({.owner = owner})) {
    std::cout << each.message.topic << " " << each.message.payload << " "
              << platform.outbox().ack(owner, {{each.claim}}) << "\n";
  }
}
