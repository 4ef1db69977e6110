#include "transport/nats/pub_ack.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace dovetail::transport::nats {
namespace {

// Error codes of the JetStream API.
constexpr int cluster_not_available = 10008;
constexpr int insufficient_resources = 10023;
constexpr int storage_resources_exceeded = 10047;
constexpr int message_exceeds_maximum = 10054;

PublishResult result_of(int code) {
  switch (code) {
    case message_exceeds_maximum:
      return PublishResult::refused;
    case cluster_not_available:
    case insufficient_resources:
    case storage_resources_exceeded:
      return PublishResult::unavailable;
    default:
      return PublishResult::rejected;
  }
}

/// Recognises `{"stream":"SHOP","seq":7}` without the cost of a JSON parser. A name of a stream has
/// no quotes, so that nothing else looks like it.
bool is_plain_confirmation(std::string_view text) {
  constexpr std::string_view begin = R"({"stream":")";
  constexpr std::string_view middle = R"(","seq":)";
  constexpr std::string_view digits = "0123456789";
  if (!text.starts_with(begin)) return false;
  text.remove_prefix(begin.size());
  text.remove_prefix(std::min(text.find('"'), text.size()));
  if (!text.starts_with(middle)) return false;
  text.remove_prefix(middle.size());
  const auto end = text.find_first_not_of(digits);
  return end != std::string_view::npos && end > 0 && text.substr(end) == "}" && text[0] != '0';
}

}  // namespace

PublishOutcome outcome_of(std::string_view pub_ack) {
  if (is_plain_confirmation(pub_ack)) return {PublishResult::confirmed};
  const auto answer = nlohmann::json::parse(pub_ack, nullptr, false);
  if (!answer.is_object()) return {PublishResult::rejected, "the broker's answer is not a PubAck"};
  const auto error = answer.find("error");
  if (error == answer.end()) {
    // Some other program may answer on the subject of the message.
    if (answer.contains("stream") && answer.contains("seq")) return {PublishResult::confirmed};
    return {PublishResult::rejected, "the answer is not of a JetStream stream"};
  }
  const auto code = error->is_object() ? error->find("err_code") : error->end();
  const auto words = error->is_object() ? error->find("description") : error->end();
  const bool has_code = code != error->end() && code->is_number_integer();
  const bool has_words = words != error->end() && words->is_string();
  return {result_of(has_code ? code->get<int>() : 0),
          has_words ? words->get<std::string>() : "the broker gave no reason"};
}

}  // namespace dovetail::transport::nats
