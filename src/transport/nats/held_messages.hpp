// The messages that were delivered and not answered yet. While they are held, the broker is told
// that they are in progress, so that it does not deliver them again.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "transport/nats/connection.hpp"

namespace dovetail::transport::nats {

class HeldMessages {
 public:
  HeldMessages();

  /// The messages of `connection` from now on. Tags of earlier connections become void.
  void use(const std::shared_ptr<Connection>& connection, std::chrono::milliseconds ack_wait);
  /// Adds a message and returns its tag. `reply` is the subject of its answers.
  std::uint64_t add(std::string reply);
  /// Sends `answer` for the messages and forgets them. Returns their connection, or null if all
  /// tags are void.
  std::shared_ptr<Connection> answer(std::span<const std::uint64_t> tags,
                                     const std::string& answer);
  void clear();

 private:
  struct Held {
    std::string reply{};
    MonoTime since{};
  };

  void keep_alive(const std::stop_token& stop);
  std::vector<std::string> due_replies(MonoTime now);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::shared_ptr<Connection> connection_;
  std::chrono::milliseconds interval_{10'000};
  std::map<std::uint64_t, Held> held_;
  std::uint64_t last_tag_ = 0;
  std::jthread keeper_;
};

}  // namespace dovetail::transport::nats
