// Records the order in which messages of streams are handled, and detects concurrent ones.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "dovetail/dovetail.hpp"

namespace dovetail::testing {

class StreamOrder {
 public:
  /// One call of a handler. The payload is the message's number in its stream.
  class Call {
   public:
    Call(StreamOrder& order, const Message& message)
        : order_(order), stream_(message.stream.value_or("")) {
      order_.begin(stream_, std::stoi(message.payload));
    }
    ~Call() { order_.end(stream_); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    StreamOrder& order_;
    std::string stream_;
  };

  /// The number of messages that were handled at the same time as another one of their stream.
  [[nodiscard]] int overlaps() const {
    const std::lock_guard lock(mutex_);
    return overlaps_;
  }
  /// The numbers of a stream, in the order of the calls.
  [[nodiscard]] std::vector<int> of(const std::string& stream) const {
    const std::lock_guard lock(mutex_);
    const auto found = calls_.find(stream);
    return found == calls_.end() ? std::vector<int>{} : found->second;
  }
  [[nodiscard]] std::size_t total() const {
    const std::lock_guard lock(mutex_);
    return total_;
  }
  /// The streams whose numbers are not exactly 1, 2, 3 … `last`.
  [[nodiscard]] std::vector<std::string> out_of_order(int last) const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> wrong;
    for (const auto& [stream, numbers] : calls_) {
      std::vector<int> expected;
      for (int i = 1; i <= last; ++i) expected.push_back(i);
      if (numbers != expected) wrong.push_back(stream);
    }
    return wrong;
  }

 private:
  void begin(const std::string& stream, int number) {
    const std::lock_guard lock(mutex_);
    if (!running_.insert(stream).second) ++overlaps_;
    calls_[stream].push_back(number);
    ++total_;
  }
  void end(const std::string& stream) {
    const std::lock_guard lock(mutex_);
    running_.erase(stream);
  }

  mutable std::mutex mutex_;
  std::set<std::string> running_;
  std::map<std::string, std::vector<int>> calls_;
  std::size_t total_ = 0;
  int overlaps_ = 0;
};

}  // namespace dovetail::testing
