#include "transport/nats/consumer.hpp"

#include <algorithm>
#include <iterator>

#include <nlohmann/json.hpp>

#include "transport/nats/durable.hpp"
#include "transport/nats/message.hpp"
#include "transport/nats/publisher.hpp"
#include "transport/nats/subject.hpp"

namespace dovetail::transport::nats {
namespace {

/// The longest time of one question.
constexpr std::chrono::seconds longest_question{30};
/// How long the answer to a question that does not wait may take.
constexpr std::chrono::seconds longest_silence{5};
/// How long more messages are awaited after the first one of a question that waited.
constexpr std::chrono::milliseconds gathering{2};

void require_name(const char* what, const std::string& name) {
  if (name.find('.') != std::string::npos || problem_of_subject(name)) {
    throw std::invalid_argument(std::string{what} +
                                " must not be empty, and must not contain spaces, dots, * or >");
  }
}

}  // namespace

NatsConsumer::NatsConsumer(std::shared_ptr<const NatsOptions> connection,
                           NatsConsumerOptions options)
    : connection_options_(std::move(connection)),
      options_(std::move(options)),
      link_(connector(connection_options_, MailKind::messages), patience(*connection_options_)) {
  require_name("stream", options_.stream);
  require_name("durable", options_.durable);
  if (options_.ack_wait < std::chrono::milliseconds{100} ||
      options_.ack_wait > std::chrono::hours{24}) {
    throw std::out_of_range("ack_wait must be 100 ms to 24 h");
  }
  if (options_.max_ack_pending < 1 || options_.max_ack_pending > 100'000) {
    throw std::out_of_range("max_ack_pending must be 1 to 100,000");
  }
}

void NatsConsumer::bind(const std::shared_ptr<Connection>& connection, const TransportCall& call) {
  if (bound_ == connection) return;
  arrived_.clear();
  question_ = {};
  held_.clear();
  bound_.reset();
  held_.use(connection, ensure_durable(*connection, options_, call));
  bound_ = connection;
}

std::vector<IncomingMessage> NatsConsumer::fetch(std::size_t most, const TransportCall& call) {
  std::lock_guard lock(turn_);
  const auto connection = link_.open(call);
  bind(connection, call);
  receive(MonoTime::clock::now(), call.stop);  // what arrived since the last call
  bool waits = false;
  while (arrived_.size() < most && !call.stop.stop_requested()) {
    const auto now = MonoTime::clock::now();
    require_answers(now);
    if (now >= call.deadline || (!arrived_.empty() && !is_asking())) break;
    if (!is_asking()) {
      ask_for(most, waits, call.deadline);
      waits = true;
    }
    const bool has_some = !arrived_.empty();
    const auto until = has_some ? now + gathering : std::min(call.deadline, question_.until);
    if (!receive(until, call.stop) && has_some) break;
  }
  // The broker does not say that it has no more messages for a question that does not wait.
  if (!arrived_.empty() && !question_.waits) question_ = {};
  return take(most);
}

/// The broker is silent about a consumer that was deleted.
void NatsConsumer::require_answers(MonoTime now) {
  if (question_.missing == 0 || question_.waits || now < question_.until) return;
  bound_.reset();  // the next call looks for the consumer
  throw std::runtime_error("the consumer " + options_.durable + " does not answer");
}

bool NatsConsumer::is_asking() const {
  return question_.missing > 0 && MonoTime::clock::now() < question_.until;
}

void NatsConsumer::ask_for(std::size_t count, bool waits, MonoTime deadline) {
  const auto now = MonoTime::clock::now();
  const auto until = waits ? std::min(deadline, now + longest_question) : now + longest_silence;
  nlohmann::json body{{"batch", count}};
  if (waits) {
    body["expires"] = std::max<std::int64_t>(std::chrono::nanoseconds{until - now}.count(), 1);
  } else {
    body["no_wait"] = true;
  }
  const auto subject = "$JS.API.CONSUMER.MSG.NEXT." + options_.stream + "." + options_.durable;
  const auto reply = bound_->inbox() + std::to_string(++last_question_);
  const auto text = body.dump();
  require(natsConnection_PublishRequest(bound_->get(), subject.c_str(), reply.c_str(), text.data(),
                                        static_cast<int>(text.size())),
          "the request for messages");
  bound_->push();
  question_ = {.reply = reply, .missing = count, .until = until, .waits = waits};
}

/// Returns false if nothing arrived.
bool NatsConsumer::receive(MonoTime until, const std::stop_token& stop) {
  auto mail = bound_->mailbox().take(1, until, stop);
  for (const auto& message : mail.messages) read(message.get());
  if (!mail.messages.empty()) return true;
  if (mail.closed) throw std::runtime_error("the connection was lost");
  if (!mail.errors.empty()) throw std::runtime_error(mail.errors.front());
  return false;
}

void NatsConsumer::read(natsMsg* message) {
  const char* reply = natsMsg_GetReply(message);
  if (reply == nullptr || *reply == '\0') {
    if (natsMsg_IsNoResponders(message)) {
      bound_.reset();  // the consumer is perhaps gone: the next call looks for it
      throw JetStreamSilent();
    }
    if (const auto status = header_of(message, "Status")) read_status(*status, message);
    return;
  }
  if (question_.missing > 0) --question_.missing;
  auto incoming = incoming_message(message, place_of(reply));
  incoming.tag = held_.add(reply);
  arrived_.push_back(std::move(incoming));
}

/// The broker ends a question, or says why it does not answer it.
void NatsConsumer::read_status(const std::string& status, natsMsg* message) {
  if (status == "100" || natsMsg_GetSubject(message) != question_.reply) return;
  question_ = {};
  if (status == "404" || status == "408") return;  // no messages, or no more of them
  const auto words = header_of(message, "Description").value_or("status " + status);
  link_.drop();
  throw std::runtime_error("the consumer " + options_.durable + ": " + words);
}

std::vector<IncomingMessage> NatsConsumer::take(std::size_t most) {
  const auto count = static_cast<std::ptrdiff_t>(std::min(most, arrived_.size()));
  std::vector<IncomingMessage> taken{std::make_move_iterator(arrived_.begin()),
                                     std::make_move_iterator(arrived_.begin() + count)};
  arrived_.erase(arrived_.begin(), arrived_.begin() + count);
  return taken;
}

void NatsConsumer::ack(std::span<const std::uint64_t> tags, const TransportCall& call) {
  answer(tags, "+ACK", call);
}

void NatsConsumer::give_back(std::span<const std::uint64_t> tags, const TransportCall& call) {
  const nlohmann::json delay{{"delay", std::chrono::nanoseconds{options_.give_back_delay}.count()}};
  answer(tags, "-NAK " + delay.dump(), call);
}

void NatsConsumer::answer(std::span<const std::uint64_t> tags, const std::string& answer,
                          const TransportCall& call) {
  if (const auto connection = held_.answer(tags, answer)) connection->flush(call.deadline);
}

void NatsConsumer::close() noexcept {
  std::lock_guard lock(turn_);
  held_.clear();
  arrived_.clear();
  bound_.reset();
  link_.drop();
}

}  // namespace dovetail::transport::nats
