#include "transport/nats/publisher.hpp"

#include <algorithm>

#include "core/random.hpp"
#include "transport/cloud_events.hpp"
#include "transport/nats/publish_round.hpp"

namespace dovetail::transport::nats {
namespace {

/// How long a probe waits for JetStream.
constexpr std::chrono::seconds probe_question{2};

}  // namespace

NatsPublisher::NatsPublisher(std::shared_ptr<const NatsOptions> connection,
                             NatsPublisherOptions options)
    : connection_options_(std::move(connection)),
      options_(std::move(options)),
      links_(connector(connection_options_, MailKind::answers), patience(*connection_options_)) {
  if (options_.subject.empty()) throw std::invalid_argument("subject must not be empty");
  (void)transport::filled(options_.subject, Message{});  // throws for a wrong template
}

std::vector<PublishOutcome> NatsPublisher::publish(std::span<const Message> messages,
                                                   const TransportCall& call) {
  auto connection = links_.open(call);
  PublishRound round(*connection, options_, messages, sent_.fetch_add(messages.size()));
  round.send_all(call.source);
  round.await_all(call);
  if (round.lost()) connection.drop();
  return round.take_outcomes();
}

void NatsPublisher::probe(const TransportCall& call) {
  const auto connection = links_.open(call);
  try {
    connection->flush(call.deadline);
    const auto until = std::min(call.deadline, MonoTime::clock::now() + probe_question);
    connection->ask("$JS.API.INFO", "", until);
  } catch (const JetStreamSilent&) {
    throw;
  } catch (const std::exception&) {
    // A user who may publish may perhaps not ask: the broker is there.
    if (!connection->is_open()) throw;
    connection->flush(call.deadline);
  }
}

Link<Connection>::Connect connector(std::shared_ptr<const NatsOptions> options, MailKind kind) {
  return [options = std::move(options), kind] {
    const auto& urls = options->urls;
    const auto first = static_cast<std::size_t>(core::random_unit() * double(urls.size()));
    for (std::size_t i = 0;; ++i) {
      try {
        return std::make_shared<Connection>(*options, urls[(first + i) % urls.size()], kind);
      } catch (const std::exception&) {
        if (i + 1 >= urls.size()) throw;
      }
    }
  };
}

std::chrono::milliseconds patience(const NatsOptions& options) {
  return options.connect_timeout * (2 * static_cast<int>(options.urls.size()));
}

}  // namespace dovetail::transport::nats
