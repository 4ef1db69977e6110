#include "transport/nats/publish_round.hpp"

#include <nlohmann/json.hpp>

#include "transport/cloud_events.hpp"
#include "transport/nats/message.hpp"
#include "transport/nats/subject.hpp"

namespace dovetail::transport::nats {
namespace {

/// How long the broker is asked for the streams of a subject.
constexpr std::chrono::seconds stream_question{2};

}  // namespace

PublishRound::PublishRound(Connection& connection, const NatsPublisherOptions& options,
                           std::span<const Message> messages, std::uint64_t first_number)
    : connection_(connection),
      options_(options),
      messages_(messages),
      first_number_(first_number),
      sent_(messages.size()),
      outcomes_(messages.size()) {}

void PublishRound::send_all(std::string_view source) {
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    if (!send(i, source)) {
      lost_ = true;
      give_up("the connection was lost");
      for (; i < messages_.size(); ++i) outcomes_[i].reason = "the connection was lost";
      return;
    }
  }
  if (awaited_ > 0) connection_.push();
}

/// Returns false if the connection is lost.
bool PublishRound::send(std::size_t index, std::string_view source) {
  auto& sent = sent_[index];
  sent.subject = transport::filled(options_.subject, messages_[index]);
  if (auto problem = problem_of_subject(sent.subject)) {
    outcomes_[index] = {PublishResult::refused, std::move(*problem)};
    return true;
  }
  const auto reply = connection_.inbox() + std::to_string(first_number_ + index);
  const auto message = outgoing_message(
      messages_[index], {.subject = sent.subject, .reply = reply, .source = source});
  const auto status = natsConnection_PublishMsg(connection_.get(), message.get());
  if (status == NATS_MAX_PAYLOAD || status == NATS_INVALID_SUBJECT || status == NATS_INVALID_ARG) {
    outcomes_[index] = {PublishResult::refused, words_of(status)};
    return true;
  }
  if (status != NATS_OK) return false;
  sent.awaited = true;
  ++awaited_;
  return true;
}

void PublishRound::settle(std::size_t index, PublishOutcome outcome) {
  outcomes_[index] = std::move(outcome);
  sent_[index].awaited = false;
  --awaited_;
}

void PublishRound::give_up(const std::string& reason) {
  for (std::size_t i = 0; i < sent_.size(); ++i) {
    if (sent_[i].awaited) settle(i, {PublishResult::unavailable, reason});
  }
}

void PublishRound::await_all(const TransportCall& call) {
  while (awaited_ > 0) {
    auto mail = connection_.mailbox().take(awaited_, call.deadline, call.stop);
    for (auto& answer : mail.answers) read_answer(answer, call.deadline);
    for (const auto& error : mail.errors) read_error(error);
    if (awaited_ == 0 || !mail.answers.empty() || !mail.errors.empty()) continue;
    lost_ = mail.closed || !call.stop.stop_requested();
    give_up(mail.closed                  ? "the connection was lost"
            : call.stop.stop_requested() ? "the publisher was stopped"
                                         : "the broker did not answer in time");
  }
}

void PublishRound::read_answer(Answer& answer, MonoTime deadline) {
  const auto index = answer.number - first_number_;
  // Late answers of earlier calls, and repeated ones, have no effect.
  if (index >= sent_.size() || !sent_[index].awaited) return;
  settle(index, answer.no_responders ? without_responder(sent_[index].subject, deadline)
                                     : std::move(answer.outcome));
}

/// The broker names the subject that this user may not publish to.
void PublishRound::read_error(const std::string& error) {
  for (std::size_t i = 0; i < sent_.size(); ++i) {
    const bool named = error.find('"' + sent_[i].subject + '"') != std::string::npos;
    if (sent_[i].awaited && named) settle(i, {PublishResult::rejected, error});
  }
}

/// A subject without a stream is a mistake of the message. A stream that does not answer, for
/// example because its cluster elects a leader, is an outage.
PublishOutcome PublishRound::without_responder(const std::string& subject, MonoTime deadline) {
  const auto until = std::min(deadline, MonoTime::clock::now() + stream_question);
  try {
    const nlohmann::json question{{"subject", subject}};
    const auto answer = nlohmann::json::parse(
        connection_.ask("$JS.API.STREAM.NAMES", question.dump(), until), nullptr, false);
    if (answer.is_object() && answer.value("total", 0) > 0) {
      return {PublishResult::unavailable,
              "the stream of the subject " + subject + " does not answer"};
    }
  } catch (const JetStreamSilent& failure) {
    return {PublishResult::unavailable, failure.what()};
  } catch (const std::exception& failure) {
    // A user who may not ask gets no answer.
    if (!connection_.is_open()) return {PublishResult::unavailable, failure.what()};
  }
  return {PublishResult::rejected, "no stream stores the subject " + subject};
}

}  // namespace dovetail::transport::nats
