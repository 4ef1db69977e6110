// The base of tests about groups: three databases. The third one uses the other engine.
#pragma once

#include <gmock/gmock.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "dovetail/group.hpp"
#include "support/backend.hpp"
#include "support/eventually.hpp"
#include "support/recorded_lines.hpp"

namespace dovetail::testing {

/// The calls of handlers in order: "key topic payload".
class Calls {
 public:
  void add(const Message& message, const HandlerContext& context) {
    const std::lock_guard lock(mutex_);
    all_.push_back({context.database(), message.topic, message.payload});
  }
  struct Call {
    std::string database, topic, payload;
    friend bool operator==(const Call&, const Call&) = default;
  };
  [[nodiscard]] std::vector<Call> all() const {
    const std::lock_guard lock(mutex_);
    return all_;
  }
  [[nodiscard]] std::vector<std::string> databases() const {
    std::vector<std::string> keys;
    for (const auto& call : all()) keys.push_back(call.database);
    return keys;
  }
  [[nodiscard]] std::size_t count() const { return all().size(); }
  [[nodiscard]] bool reach(std::size_t count) const {
    return eventually([&] { return this->count() >= count; });
  }
  [[nodiscard]] HandlerFunction handler() {
    return [this](const Message& message, HandlerContext& context) { add(message, context); };
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Call> all_;
};

class GroupTest : public BackendTest {
 protected:
  GroupTest() {
    for (auto* each : {&backend, &second, &third}) static_cast<void>(each->open());  // deploys
  }

  [[nodiscard]] GroupOptions options(std::shared_ptr<SelectionStrategy> selection = {}) const {
    GroupOptions options{.selection = std::move(selection),
                         .max_connections = 16,
                         .max_poll_interval = std::chrono::milliseconds{1'000},
                         .database = {}};
    options.database.log_sink = log;
    options.database.worker.poll_interval = std::chrono::milliseconds{20};
    options.database.worker.idle_poll_interval = std::chrono::milliseconds{100};
    return options;
  }
  [[nodiscard]] static DatabaseEntry entry(const std::string& key, const Backend& backend) {
    return {key, backend.url(), backend.schema()};
  }
  [[nodiscard]] std::vector<DatabaseEntry> three() const {
    return {entry("a", backend), entry("b", second), entry("c", third)};
  }
  void add_three(PlatformGroup& group) const {
    for (const auto& each : three()) group.add(each.key, each.url, each.schema);
  }
  static void enqueue(PlatformGroup& group, const std::string& key, int count,
                      const std::string& topic = "t") {
    for (int i = 0; i < count; ++i) {
      group[key].outbox().enqueue({.topic = topic, .payload = std::to_string(i)});
    }
  }
  [[nodiscard]] static GroupDatabaseStatus status_of(const PlatformGroup& group,
                                                     const std::string& key) {
    for (auto& each : group.status().databases) {
      if (each.key == key) return each;
    }
    return {};
  }

  Backend second{GetParam(), Tables::may_exist};
  Backend third{backend.is_postgres() ? BackendKind::sqlite : BackendKind::postgres,
                Tables::may_exist};
  std::shared_ptr<RecordedLines> log = std::make_shared<RecordedLines>();
  Calls calls;
};

}  // namespace dovetail::testing
