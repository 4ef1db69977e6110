// Two databases with a broker between them: what the first one enqueues, the second one handles.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dovetail/dovetail.hpp"
#include "dovetail/transport.hpp"
#include "support/backend.hpp"
#include "support/eventually.hpp"

namespace dovetail::testing {

class TwoPlatforms {
 public:
  TwoPlatforms(std::shared_ptr<Publisher> publisher, std::shared_ptr<Consumer> consumer) {
    shop_.publish("order.*", std::move(publisher),
                  {.timeout = std::chrono::seconds{5},
                   .first_probe = std::chrono::milliseconds{20},
                   .longest_probe = std::chrono::milliseconds{200}});
    billing_.consume(std::move(consumer), {.source = "shop"});
    billing_.on_any_inbox([this](const InboxMessage& message, HandlerContext&) {
      std::lock_guard lock(mutex_);
      handled_.push_back({message.stream.value_or(""), message.payload});
    });
    billing_.start();
    shop_.start();
  }

  Platform& shop() { return shop_; }
  /// Enqueues messages with numbers. Every third one is of one of five streams.
  void enqueue(int from, int to) {
    for (int i = from; i < to; ++i) {
      std::optional<std::string> stream;
      if (i % 3 == 0) stream = "customer-" + std::to_string(i / 3 % 5);
      shop_.outbox().enqueue(
          {.topic = "order.created", .payload = std::to_string(i), .stream = stream});
    }
  }
  [[nodiscard]] std::size_t handled() const {
    std::lock_guard lock(mutex_);
    return handled_.size();
  }
  /// Each of the messages had its effect once, those of a stream in their order, and the outage
  /// has cost no attempt.
  void expect_all(int count) {
    ASSERT_TRUE(eventually([&] { return handled() >= static_cast<std::size_t>(count); },
                           std::chrono::seconds{60}))
        << handled();
    EXPECT_TRUE(eventually([&] {
      const auto counts = shop_.outbox().counts();
      return counts.done == count && counts.ready + counts.in_progress + counts.scheduled == 0;
    }));
    std::map<std::string, int> last;
    std::map<std::string, int> times;
    std::lock_guard lock(mutex_);
    for (const auto& [stream, payload] : handled_) {
      EXPECT_EQ(++times[payload], 1) << payload;
      if (stream.empty()) continue;
      EXPECT_GT(std::stoi(payload), last.contains(stream) ? last[stream] : -1) << stream;
      last[stream] = std::stoi(payload);
    }
    EXPECT_EQ(times.size(), static_cast<std::size_t>(count));
    EXPECT_EQ(shop_.outbox().counts().failed, 0);
    EXPECT_EQ(billing_.inbox().queue().counts().failed, 0);
  }

 private:
  struct Handled {
    std::string stream;
    std::string payload;
  };

  TemporaryDirectory folder_;
  mutable std::mutex mutex_;
  std::vector<Handled> handled_;
  Platform shop_ =
      Platform::open("sqlite:" + (folder_.path() / "shop.db").string(), {.deploy_schema = true});
  Platform billing_ =
      Platform::open("sqlite:" + (folder_.path() / "billing.db").string(), {.deploy_schema = true});
};

}  // namespace dovetail::testing
