// One connection to a NATS server. It is never reconnected: when it has ended, the Link makes a new
// one. So libnats keeps no message that it would send later.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "dovetail/nats.hpp"
#include "transport/nats/library.hpp"
#include "transport/nats/mailbox.hpp"

namespace dovetail::transport::nats {

/// Nobody answers requests of JetStream: it is not enabled, or has no leader.
class JetStreamSilent : public std::runtime_error {
 public:
  JetStreamSilent() : std::runtime_error("JetStream does not answer") {}
};

class Connection {
 public:
  /// Connects. Throws std::runtime_error without secrets in its text.
  Connection(const NatsOptions& options, const std::string& url,
             MailKind kind = MailKind::messages);

  [[nodiscard]] natsConnection* get() const { return connection_.get(); }
  [[nodiscard]] bool is_open() const { return !natsConnection_IsClosed(connection_.get()); }
  /// Messages to the subjects `inbox() + anything`, which has no dots, arrive in the mailbox.
  [[nodiscard]] const std::string& inbox() const { return inbox_; }
  [[nodiscard]] Mailbox& mailbox() { return *mailbox_; }

  /// Asks the JetStream API, and returns the JSON text of the answer. Throws JetStreamSilent, or
  /// std::runtime_error if there was no answer until the deadline.
  std::string ask(const std::string& subject, std::string_view body, MonoTime deadline);
  /// Sends what is buffered, and waits for the broker's answer until the deadline. Throws
  /// std::runtime_error if there was none.
  void flush(MonoTime deadline);
  /// Sends what is buffered, and does not wait.
  void push();

 private:
  void connect(const NatsOptions& options, const std::string& url);

  std::shared_ptr<Mailbox> mailbox_;
  std::string inbox_;
  ConnectionPtr connection_;
  SubscriptionPtr subscription_;
};

/// The whole milliseconds until the deadline, at least 1.
std::int64_t milliseconds_until(MonoTime deadline);

/// Throws std::invalid_argument if no connection can be made with the options.
void require_valid(const NatsOptions& options);

/// The addresses of the options without secrets, separated by commas.
std::string address_of(const NatsOptions& options);

}  // namespace dovetail::transport::nats
