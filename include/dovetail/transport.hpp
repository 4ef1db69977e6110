// Transports: from the outbox to a broker, and from a broker to the inbox.
//
//   platform.publish("order.*", nats.publisher({.subject = "shop.{topic}"}));
//   platform.consume(nats.consumer({.stream = "SHOP", .durable = "billing"}),
//                    {.source = "nats:SHOP"});
//
// A route passes messages of the outbox to a Publisher, many at a time. A Consumer receives
// messages of a broker, which are stored in the inbox's queue; handlers of Platform::on_inbox()
// receive them. Publishers and Consumers of brokers are in headers of their own (nats.hpp,
// rabbitmq.hpp, amqp.hpp, webhook.hpp, kafka.hpp). You may write your own.
//
// Guarantees
//   * A message is done only after the broker has confirmed that message.
//   * A broker that is down costs no attempt and no message. Its route stops claiming and probes
//     the broker with a backoff. Other routes go on.
//   * Messages of a stream are published one after the other. The next one follows after the
//     confirmation of the one before, also across retries.
//   * A received message is stored in the inbox first and acknowledged afterwards. A repeated
//     message is acknowledged and not stored again. A message that cannot be read becomes a dead
//     letter of the inbox, with the reason.
//   * So a message that Dovetail publishes and another Dovetail consumes takes effect exactly once.
// Not guaranteed
//   * That a broker receives a message once. A confirmation can be lost, and the message is then
//     published again, with the same id.
//
// Threads: the calls of one Publisher or Consumer come from several threads, one route or source
// at a time unless its class says otherwise.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/clock.hpp"
#include "dovetail/queue.hpp"

namespace dovetail {

/// The answer of a broker for one message.
enum class PublishResult : std::uint8_t {
  confirmed,    ///< The broker has stored it, or has had it before.
  rejected,     ///< Refused; a retry may succeed. An attempt is charged.
  refused,      ///< Refused for good: the message becomes a dead letter.
  unavailable,  ///< No answer, or the broker is down. No attempt is charged.
};

struct PublishOutcome {
  PublishResult result = PublishResult::unavailable;
  std::string reason{};  ///< The words of the broker. Empty if confirmed.
  /// How long the broker asks to wait. Absent: the backoff of the route.
  std::optional<std::chrono::milliseconds> retry_after{};
};

/// The limits of one call.
struct TransportCall {
  MonoTime deadline{};     ///< Later confirmations are not awaited.
  std::stop_token stop{};  ///< Ends the call early.
  /// Where the messages come from: the `source` of their CloudEvents. See PublishOptions::source.
  std::string_view source{};
};

class Publisher {
 public:
  virtual ~Publisher() = default;

  /// The kind of the broker, such as `nats`, for logs and metrics.
  [[nodiscard]] virtual std::string kind() const = 0;
  /// The address of the broker, without secrets.
  [[nodiscard]] virtual std::string address() const = 0;

  /// Publishes messages, and waits for their confirmations until the deadline. Connects if needed.
  /// Returns one outcome for each message, in their order. A message whose confirmation did not
  /// come is `unavailable`. An exception means that all messages are `unavailable`.
  ///
  /// No two messages of one call belong to the same stream.
  [[nodiscard]] virtual std::vector<PublishOutcome> publish(std::span<const Message> messages,
                                                            const TransportCall& call) = 0;

  /// Throws if the broker does not accept messages now. It publishes nothing. Called while the
  /// route has stopped because the broker was unavailable.
  virtual void probe(const TransportCall& call) = 0;

  /// The broker asks publishers to wait, for example because its disk is full. Absent: it does not.
  [[nodiscard]] virtual std::optional<std::string> blocked() const { return {}; }

  /// Closes the connection. A later publish() opens it again.
  virtual void close() noexcept {}
};

/// A message as it came from a broker.
struct IncomingMessage {
  std::uint64_t tag = 0;  ///< With which the Consumer finds it again.
  std::string id{};       ///< Its id at the source, for the inbox.
  std::string topic{};
  std::string payload{};
  Headers headers{};
  std::optional<std::string> correlation_id{};
  std::optional<std::string> stream{};
  /// Why the message cannot be read. It becomes a dead letter with this reason.
  std::optional<std::string> problem{};
};

class Consumer {
 public:
  virtual ~Consumer() = default;

  [[nodiscard]] virtual std::string kind() const = 0;
  [[nodiscard]] virtual std::string address() const = 0;

  /// Waits until there are messages, or until the deadline. Returns at most `most` messages. They
  /// belong to the caller until ack() or give_back(). Connects if needed. Throws if the broker is
  /// down. After a throw, or after close(), the tags of earlier messages are void: the broker
  /// delivers those messages again.
  [[nodiscard]] virtual std::vector<IncomingMessage> fetch(std::size_t most,
                                                           const TransportCall& call) = 0;
  /// The messages are stored: the broker may forget them. Tags that are void are ignored.
  virtual void ack(std::span<const std::uint64_t> tags, const TransportCall& call) = 0;
  /// The messages could not be stored: the broker delivers them again later.
  virtual void give_back(std::span<const std::uint64_t> tags, const TransportCall& call) = 0;

  virtual void close() noexcept {}
};

/// Options of a route, see Platform::publish().
struct PublishOptions {
  /// The largest number of messages on their way to the broker: 1 to 10,000.
  int window = 256;
  /// How long a confirmation is awaited: 100 ms to 10 min. The lease of the messages is longer.
  std::chrono::milliseconds timeout{30'000};
  /// The number of rejections after which a message becomes a dead letter: 1 to 1,000. A process
  /// that ends while it publishes a message counts as a rejection, too. Absent:
  /// QueueOptions::max_attempts of the outbox.
  std::optional<int> max_attempts{};
  /// What happens to a stream when one of its messages becomes a dead letter.
  StreamFailure on_stream_failure = StreamFailure::block;
  /// The pauses between two probes of a broker that is down: the first one, and the longest. A
  /// random part of each is left out.
  std::chrono::milliseconds first_probe{250};
  std::chrono::milliseconds longest_probe{30'000};
  /// The `source` of the CloudEvents. Empty: Platform::name().
  std::string source{};
};

/// Options of a source, see Platform::consume().
struct ConsumeOptions {
  /// The source of the messages in the inbox: 1 to 64 characters. Ids are unique within a source.
  std::string source{};
  /// The topic of messages that carry none. Absent: such a message cannot be read.
  std::optional<std::string> topic{};
  /// The largest number of messages that are fetched and not stored: 1 to 10,000.
  int prefetch = 256;
};

/// What a route or a source does at the moment.
enum class TransportState : std::uint8_t {
  stopped,      ///< The Platform has not been started, or was stopped.
  running,      ///< It works, or waits for messages.
  blocked,      ///< The broker asks it to wait.
  unavailable,  ///< The broker is down. It is probed.
  failing,      ///< The database is down.
};

[[nodiscard]] std::string_view to_string(TransportState state);

/// A route or a source of a Platform, see Platform::transports().
struct TransportInfo {
  enum class Direction : std::uint8_t { publish, consume };

  Direction direction = Direction::publish;
  std::string name{};     ///< The topic pattern of a route, or the name of a source.
  std::string kind{};     ///< Such as `nats`.
  std::string address{};  ///< Of the broker, without secrets.
  TransportState state = TransportState::stopped;
  std::string reason{};                              ///< Why it does not run.
  std::optional<std::chrono::milliseconds> since{};  ///< How long it has not been running.
  std::size_t in_flight = 0;                         ///< Messages on their way to the broker.
  std::uint64_t done = 0;                            ///< Confirmed, or stored in the inbox.
  std::uint64_t repeated = 0;                        ///< Rejected, or received before.
  std::uint64_t dead = 0;                            ///< Dead letters.
};

[[nodiscard]] std::string_view to_string(TransportInfo::Direction direction);

}  // namespace dovetail
