// Publishes to JetStream. All messages of a call are sent before the first answer is awaited.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "dovetail/nats.hpp"
#include "transport/link_pool.hpp"
#include "transport/nats/connection.hpp"

namespace dovetail::transport::nats {

class NatsPublisher : public Publisher {
 public:
  NatsPublisher(std::shared_ptr<const NatsOptions> connection, NatsPublisherOptions options);

  [[nodiscard]] std::string kind() const override { return "nats"; }
  [[nodiscard]] std::string address() const override { return address_of(*connection_options_); }
  [[nodiscard]] std::vector<PublishOutcome> publish(std::span<const Message> messages,
                                                    const TransportCall& call) override;
  void probe(const TransportCall& call) override;
  void close() noexcept override { links_.drop(); }

 private:
  const std::shared_ptr<const NatsOptions> connection_options_;
  const NatsPublisherOptions options_;
  std::atomic<std::uint64_t> sent_ = 0;  ///< The messages that were sent; numbers their answers.
  LinkPool<Connection> links_;
};

/// Makes connections for a Link: tries all URLs, beginning with a random one.
Link<Connection>::Connect connector(std::shared_ptr<const NatsOptions> options, MailKind kind);
/// How long a Link waits for one attempt.
std::chrono::milliseconds patience(const NatsOptions& options);

}  // namespace dovetail::transport::nats
