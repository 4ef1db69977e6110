// What arrives on a connection: messages, errors of the broker, and the end of the connection.
//
// libnats calls back from its own threads, also after a connection was destroyed. So its callbacks
// receive the number of a mailbox instead of a pointer.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dovetail/transport.hpp"
#include "transport/nats/library.hpp"

namespace dovetail::transport::nats {

/// The answer to a message that was published. Its subject ends with a number.
struct Answer {
  std::uint64_t number = 0;
  PublishOutcome outcome{};
  bool no_responders = false;  ///< Nobody listens to the subject of the message.
};

/// All that arrived since the last call of take().
struct Mail {
  std::deque<MessagePtr> messages{};
  std::vector<Answer> answers{};
  std::vector<std::string> errors{};
  bool closed = false;
};

/// Whether messages are kept as they are, or read as answers. Reading them where they arrive is
/// faster: the thread that publishes need not free the memory of another thread.
enum class MailKind : std::uint8_t { messages, answers };

class Mailbox {
 public:
  static std::shared_ptr<Mailbox> create(MailKind kind);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  /// The value for the closures of libnats.
  [[nodiscard]] void* closure() const;

  /// Waits until `enough` messages or an error arrive, the deadline passes, or a stop is requested.
  Mail take(std::size_t enough, MonoTime deadline, const std::stop_token& stop);

  // The callbacks of libnats.
  static void on_message(natsConnection* connection, natsSubscription* subscription,
                         natsMsg* message, void* closure);
  static void on_error(natsConnection* connection, natsSubscription* subscription,
                       natsStatus status, void* closure);
  static void on_closed(natsConnection* connection, void* closure);

 private:
  Mailbox(std::uintptr_t number, MailKind kind) : number_(number), kind_(kind) {}
  void put(const std::function<void(Mail&)>& add);
  [[nodiscard]] bool has_enough() const;

  const std::uintptr_t number_;
  const MailKind kind_;
  std::mutex mutex_;
  std::condition_variable_any arrival_;
  Mail mail_;
  std::size_t enough_ = 1;  ///< Waking the taker for each message would cost more than the rest.
};

}  // namespace dovetail::transport::nats
