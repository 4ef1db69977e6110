// The work coordinator on embedded SQLite: a consumer with a scope for each message, and a
// publisher that collects its writes.
//
// A broker delivers orders, one of them twice. The consumer stores each order in the inbox, and
// gets work only if the order is new. It processes the work in the order of its stream, and stores
// the messages for the outbox together with the completions. The publisher's thread claims them
// every 20 milliseconds, publishes them in order, and reports the results with its next call.
#include <chrono>
#include <filesystem>
#include <iostream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "dovetail/dovetail.hpp"

namespace {

using namespace std::chrono_literals;
using dovetail::Coordinator;
using dovetail::OrderedStreamProcessor;
using dovetail::Stage;
using dovetail::Work;
using dovetail::WorkClaim;
using dovetail::WorkContext;
using dovetail::WorkResult;
using dovetail::WorkStrategy;

struct Delivery {
  std::string id;
  std::string customer;
  std::string body;
};

// --- the consumer: one scope for each delivery

void consume(dovetail::Platform& platform, const Delivery& delivery) {
  Coordinator scope{platform.work(), {.strategy = WorkStrategy::scoped}};
  // The message is also an event of the stream of its customer, in the same transaction.
  scope.queue_inbox_message({.topic = "order.placed",
                             .source = "broker",
                             .message_id = delivery.id,
                             .payload = delivery.body,
                             .stream = delivery.customer},
                            {.is_event = true});
  const auto arrived = scope.flush_and_claim({}, WorkClaim{.stored_only = true});
  if (!arrived.inbox.front().stored()) {
    std::cout << delivery.id << " is a duplicate\n";
    return;
  }
  OrderedStreamProcessor{}.process(
      arrived.work,
      [&](const Work& work, WorkContext& context) {
        const auto order = work.inbox_message();
        std::cout << order.message_id << " is processed: " << order.payload << "\n";
        context.stage_done(Stage::receptor_processed);
        scope.queue_outbox_message(
            {.topic = "order.confirmed", .payload = order.payload, .stream = order.stream});
        context.stage_done(Stage::perspective_processed);
      },
      scope);
  scope.flush();  // the completion and the new message, in one call
}

// --- the publisher: a thread that collects

class Publisher {
 public:
  explicit Publisher(dovetail::Platform& platform)
      : coordinator_(platform.work(), {.strategy = WorkStrategy::interval,
                                       .interval = 20ms,
                                       .claim_outbox = WorkClaim{.batch_size = 100},
                                       .on_result = [this](const WorkResult& r) { publish(r); }}) {}

  std::vector<std::string> published() {
    const std::scoped_lock lock{mutex_};
    return published_;
  }
  void finish() { coordinator_.flush(); }

 private:
  void publish(const WorkResult& result) {
    const OrderedStreamProcessor processor;
    processor.process(
        result.work,
        [this](const Work& work, WorkContext& context) {
          const std::scoped_lock lock{mutex_};
          published_.push_back(work.message.payload);  // your broker
          context.stage_done(Stage::published);
        },
        coordinator_);
  }

  std::mutex mutex_;
  std::vector<std::string> published_;
  Coordinator coordinator_;  // last: its thread uses the others
};

}  // namespace

int main() {
  std::filesystem::remove("work.db");
  auto platform = dovetail::Platform::open("sqlite:work.db", {.deploy_schema = true});
  const std::vector<Delivery> deliveries{{"m1", "ada", "a chisel"},
                                         {"m2", "ada", "a mallet"},
                                         {"m1", "ada", "a chisel"},
                                         {"m3", "ada", "a bench"}};
  for (const auto& delivery : deliveries) consume(platform, delivery);
  {
    Publisher publisher{platform};
    while (publisher.published().size() < 3) std::this_thread::sleep_for(5ms);
    publisher.finish();
    for (const auto& text : publisher.published()) std::cout << "published: " << text << "\n";
  }
  const auto counts = platform.outbox().counts();
  std::cout << counts.done << " published, " << counts.ready << " waiting, "
            << platform.events().read("ada").size() << " events\n";
}
