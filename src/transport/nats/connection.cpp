#include "transport/nats/connection.hpp"

#include <algorithm>

#include "transport/nats/connection_options.hpp"

namespace dovetail::transport::nats {

Connection::Connection(const NatsOptions& options, const std::string& url, MailKind kind)
    : mailbox_(Mailbox::create(kind)) {
  connect(options, url);
  char* prefix = nullptr;
  require(natsInbox_Create(&prefix), "the name of an inbox");
  inbox_ = std::string{prefix} + ".";
  natsInbox_Destroy(prefix);
  natsSubscription* subscription = nullptr;
  require(natsConnection_Subscribe(&subscription, get(), (inbox_ + "*").c_str(),
                                   &Mailbox::on_message, mailbox_->closure()),
          "the subscription of answers");
  subscription_.reset(subscription);
  // The number of messages is limited by the requests for them.
  require(natsSubscription_SetPendingLimits(subscription, -1, -1), "the limits of answers");
}

void Connection::connect(const NatsOptions& options, const std::string& url) {
  const auto native = connection_options(options, url, *mailbox_);
  natsConnection* connection = nullptr;
  const auto status = natsConnection_Connect(&connection, native.get());
  if (status != NATS_OK) {
    throw std::runtime_error("no connection to " + address_of(url) + ": " + words_of(status));
  }
  connection_.reset(connection);
}

std::string Connection::ask(const std::string& subject, std::string_view body, MonoTime deadline) {
  natsMsg* answer = nullptr;
  const auto status =
      natsConnection_Request(&answer, get(), subject.c_str(), body.data(),
                             static_cast<int>(body.size()), milliseconds_until(deadline));
  const MessagePtr owned{answer};
  if (status == NATS_NO_RESPONDERS) throw JetStreamSilent();
  require(status, "the request " + subject);
  return {natsMsg_GetData(answer), static_cast<std::size_t>(natsMsg_GetDataLength(answer))};
}

void Connection::flush(MonoTime deadline) {
  require(natsConnection_FlushTimeout(get(), milliseconds_until(deadline)),
          "the broker did not answer");
}

void Connection::push() {
  // Without it, libnats waits for more to send. The answer may come later than in a millisecond.
  natsConnection_FlushTimeout(get(), 1);
}

std::int64_t milliseconds_until(MonoTime deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  return std::clamp<std::int64_t>(left.count(), 1, 24LL * 60 * 60 * 1000);
}

}  // namespace dovetail::transport::nats
