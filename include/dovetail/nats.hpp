// NATS JetStream as a transport; see transport.hpp.
//
//   dovetail::Nats nats({.urls = {"nats://broker:4222"}});
//   platform.publish("order.*", nats.publisher({.subject = "shop.{topic}"}));
//   platform.consume(nats.consumer({.stream = "SHOP", .durable = "billing"}),
//                    {.source = "nats:SHOP"});
//
// Guarantees
//   * A message is confirmed by its own PubAck. The header `Nats-Msg-Id` is the message's id, and
//     the answer that the stream has had the message counts as a confirmation.
//   * A subject that no stream stores, and a stream that is full, reject the message with the
//     broker's words. A message that is too large is refused for good.
//   * A received message is acknowledged after it was stored. While storing takes long, the
//     consumer tells the broker that the message is in progress.
//   * TLS checks the name of the broker. Passwords appear neither in address() nor in errors.
// Not guaranteed
//   * That publish() returns exactly at its deadline: a write to a connection that is stuck ends
//     after NatsOptions::write_timeout.
//
// Messages carry CloudEvents 1.0 in binary mode: headers such as `ce-id` and `ce-type`.
//
// Threads: a Nats, its publishers and its consumers may be shared between threads. A publisher has
// up to four connections, one for each call at the same time. A consumer has one.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "dovetail/transport.hpp"

namespace dovetail {

struct NatsTls {
  /// PEM file of trusted certificates. Empty: those of the system.
  std::string ca_file{};
  /// PEM files of the client's certificate and its key. Empty: none.
  std::string certificate_file{};
  std::string key_file{};
  /// The name that the broker's certificate must have. Empty: the host of the URL.
  std::string host_name{};
};

/// How to connect. Files are read at each connection, so that they may change.
struct NatsOptions {
  /// `nats://HOST:PORT`, or `nats+tls://HOST:PORT`, which requires TLS. Tried in a random order. A
  /// URL may contain `USER:PASSWORD@`.
  std::vector<std::string> urls{"nats://127.0.0.1:4222"};
  std::string name = "dovetail";  ///< The name of the connection, for the broker's operators.
  std::string user{};
  std::string password{};
  std::string password_file{};     ///< Instead of `password`.
  std::string token{};             ///< Instead of `user`.
  std::string token_file{};        ///< Instead of `token`.
  std::string credentials_file{};  ///< A file of a user JWT and its key.
  NatsTls tls{};
  std::chrono::milliseconds connect_timeout{5'000};  ///< For one URL: 10 ms to 10 min.
  /// A write that takes longer ends the connection: 10 ms to 10 min.
  std::chrono::milliseconds write_timeout{5'000};
};

struct NatsPublisherOptions {
  /// The subject of a message. `{topic}` and `{stream}` are replaced. A message whose subject would
  /// not be valid is refused.
  std::string subject = "{topic}";
};

struct NatsConsumerOptions {
  std::string stream{};   ///< The name of the JetStream stream.
  std::string durable{};  ///< The name of the durable consumer. It is created if it is missing.
  /// Only messages of these subjects, if the consumer is created. Empty: all.
  std::string filter_subject{};
  /// After this time without an answer, the broker delivers a message again: 100 ms to 24 h. Used
  /// if the consumer is created.
  std::chrono::milliseconds ack_wait{30'000};
  /// The largest number of messages that are delivered and not acknowledged. Used if the consumer
  /// is created: 1 to 100,000.
  int max_ack_pending = 10'000;
  /// After this pause, the broker delivers again what was given back.
  std::chrono::milliseconds give_back_delay{1'000};
};

class Nats {
 public:
  /// Throws std::invalid_argument if the options are wrong. Does not connect.
  explicit Nats(NatsOptions options = {});
  ~Nats();
  Nats(Nats&&) noexcept;
  Nats& operator=(Nats&&) noexcept;

  [[nodiscard]] std::shared_ptr<Publisher> publisher(NatsPublisherOptions options = {}) const;
  [[nodiscard]] std::shared_ptr<Consumer> consumer(NatsConsumerOptions options) const;

 private:
  std::shared_ptr<const NatsOptions> options_;
};

}  // namespace dovetail
