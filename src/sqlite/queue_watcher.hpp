// Who has to know when messages of a queue end or come back: told in the transaction that does it.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "dovetail/clock.hpp"
#include "dovetail/ids.hpp"

namespace dovetail::sqlite {

class Connection;

enum class Ending { done, failed };

class QueueWatcher {
 public:
  virtual ~QueueWatcher() = default;
  /// Which of these messages are watched, in their order.
  virtual std::vector<Uuid> watched(Connection& connection, std::span<const Uuid> messages) = 0;
  /// Of messages that are watched.
  virtual void ended(Connection& connection, std::span<const Uuid> messages, Ending ending,
                     WallTime now) = 0;
  virtual void replayed(Connection& connection, std::span<const Uuid> messages) = 0;
};

/// Two of them.
class Watchers final : public QueueWatcher {
 public:
  Watchers(QueueWatcher& first, QueueWatcher& second) : first_(first), second_(second) {}

  std::vector<Uuid> watched(Connection& connection, std::span<const Uuid> messages) override {
    auto ones = first_.watched(connection, messages);
    auto others = second_.watched(connection, messages);
    if (others.empty()) return ones;
    if (ones.empty()) return others;
    std::vector<Uuid> both;
    for (const auto& message : messages) {
      const auto is_in = [&](const std::vector<Uuid>& list) {
        return std::ranges::find(list, message) != list.end();
      };
      if (is_in(ones) || is_in(others)) both.push_back(message);
    }
    return both;
  }
  void ended(Connection& connection, std::span<const Uuid> messages, Ending ending,
             WallTime now) override {
    for (auto* each : {&first_, &second_}) {
      const auto theirs = each->watched(connection, messages);
      if (!theirs.empty()) each->ended(connection, theirs, ending, now);
    }
  }
  void replayed(Connection& connection, std::span<const Uuid> messages) override {
    first_.replayed(connection, messages);
    second_.replayed(connection, messages);
  }

 private:
  QueueWatcher& first_;
  QueueWatcher& second_;
};

class NobodyWatches final : public QueueWatcher {
 public:
  std::vector<Uuid> watched(Connection& /*connection*/,
                            std::span<const Uuid> /*messages*/) override {
    return {};
  }
  void ended(Connection& /*connection*/, std::span<const Uuid> /*messages*/, Ending /*ending*/,
             WallTime /*now*/) override {}
  void replayed(Connection& /*connection*/, std::span<const Uuid> /*messages*/) override {}
};

}  // namespace dovetail::sqlite
