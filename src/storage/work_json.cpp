#include "storage/work_json.hpp"

#include <nlohmann/json.hpp>

#include "core/headers.hpp"

namespace dovetail::storage {
namespace {

using nlohmann::json;

json result_json(const Claim& claim, Stages stages) {
  json object{{"id", claim.id.to_string()}, {"epoch", claim.epoch}};
  if (stages.bits() != 0) object["stages"] = stages.bits();
  return object;
}

json failure_json(const WorkFailure& failure) {
  auto object = result_json(failure.claim, failure.stages);
  object["error"] = failure.error;
  if (failure.permanent) object["permanent"] = true;
  if (failure.delay) object["delay_ms"] = failure.delay->count();
  return object;
}

std::string hex(ContentHash hash) {
  static constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const auto byte : hash) {
    text += digits[std::to_integer<std::size_t>(byte) / 16];
    text += digits[std::to_integer<std::size_t>(byte) % 16];
  }
  return text;
}

json message_json(const NewMessage& message, const Headers& headers, bool is_event) {
  json object{
      {"id", message.id.to_string()}, {"topic", message.topic}, {"payload", message.payload}};
  const auto micros = [](WallTime time) { return time.time_since_epoch().count(); };
  if (message.correlation_id) object["correlation_id"] = *message.correlation_id;
  if (message.due_at) object["due_at"] = micros(*message.due_at);
  if (message.delay) object["delay_ms"] = message.delay->count();
  if (!headers.empty()) object["headers"] = headers;
  if (message.expires_at) object["expires_at"] = micros(*message.expires_at);
  if (message.priority != 0) object["priority"] = message.priority;
  if (message.unique_key) object["unique_key"] = *message.unique_key;
  if (message.stream) object["stream"] = *message.stream;
  if (is_event) object["is_event"] = true;
  return object;
}

json claim_json(const WorkClaim& claim) {
  json object{{"batch_size", claim.batch_size}, {"max_bytes", claim.max_bytes}};
  if (claim.stored_only) object["stored_only"] = true;
  if (!claim.topics.empty()) object["topics"] = claim.topics;
  return object;
}

void add_messages(json& part, const WorkPart& order) {
  if (order.messages.empty() && order.arrivals.empty()) return;
  auto& store = part["store"];
  for (std::size_t i = 0; i < order.messages.size(); ++i)
    store.push_back(message_json(order.messages[i], *order.headers[i], order.is_event[i]));
  for (std::size_t i = 0; i < order.arrivals.size(); ++i) {
    const auto& arrival = order.arrivals[i];
    auto& object =
        store.emplace_back(message_json(arrival.message, *order.headers[i], order.is_event[i]));
    object["source"] = arrival.key.source;
    object["message_id"] = arrival.key.message_id;
    if (!arrival.hash.empty()) object["hash"] = hex(arrival.hash);
  }
}

json part_json(const WorkPart& order) {
  json part;
  for (const auto& each : order.completions)
    part["complete"].push_back(result_json(each.claim, each.stages));
  for (const auto& each : order.failures) part["fail"].push_back(failure_json(each));
  for (const auto& each : order.releases)
    part["release"].push_back(result_json(each.claim, each.stages));
  for (const auto& each : order.renewals) part["renew"].push_back(result_json(each, {}));
  add_messages(part, order);
  if (order.claim != nullptr) part["claim"] = claim_json(*order.claim);
  if (part.is_null()) return part;
  part["max_attempts"] = order.max_attempts;
  if (!order.keep_done) part["keep_done"] = false;
  if (order.on_stream_failure != StreamFailure::block)
    part["on_stream_failure"] = std::string{to_string(order.on_stream_failure)};
  return part;
}

std::optional<WallTime> time_of(const json& object, const char* name) {
  const auto& value = object.at(name);
  if (value.is_null()) return std::nullopt;
  return WallTime{std::chrono::microseconds{value.get<std::int64_t>()}};
}

std::optional<std::string> text_of(const json& object, const char* name) {
  const auto& value = object.at(name);
  if (value.is_null()) return std::nullopt;
  return value.get<std::string>();
}

MessageId id_of(const json& value) {
  return MessageId::parse(value.get_ref<const std::string&>()).value();
}

Work work_of(WorkKind queue, const json& item) {
  Work work{.queue = queue};
  auto& message = work.message;
  message.id = message.message_id = id_of(item.at("id"));
  message.topic = item.at("topic").get<std::string>();
  message.payload = item.at("payload").get<std::string>();
  message.correlation_id = text_of(item, "correlation_id");
  if (!item.at("headers").is_null())
    message.headers = core::headers_from_json(item.at("headers").dump());
  message.created_at = *time_of(item, "created_at");
  message.due_at = time_of(item, "due_at");
  message.expires_at = time_of(item, "expires_at");
  message.priority = item.at("priority").get<int>();
  message.attempts = item.at("attempts").get<int>();
  message.stream = text_of(item, "stream");
  message.stages = Stages::from_bits(item.at("stages").get<int>());
  work.claim = {message.id, item.at("epoch").get<std::int64_t>(), {}};
  work.lease_until = *time_of(item, "lease_until");
  work.newly_stored = item.at("newly_stored").get<bool>();
  work.orphaned = item.at("orphaned").get<bool>();
  return work;
}

StoredWork stored_of(const json& item) {
  StoredWork stored;
  const auto& word = item.at("outcome").get_ref<const std::string&>();
  for (const auto outcome :
       {StoreOutcome::duplicate, StoreOutcome::hash_mismatch, StoreOutcome::stream_closed}) {
    if (to_string(outcome) == word) stored.outcome = outcome;
  }
  if (!item.at("id").is_null()) stored.id = id_of(item.at("id"));
  return stored;
}

void read_part(WorkKind queue, const json& part, WorkResult& result) {
  result.completed += part.value("completed", std::size_t{0});
  result.failed += part.value("failed", std::size_t{0});
  result.released += part.value("released", std::size_t{0});
  auto& stored = queue == WorkKind::outbox ? result.outbox : result.inbox;
  for (const auto& item : part.value("stored", json::array())) stored.push_back(stored_of(item));
  for (const auto* name : {"lost", "not_renewed"}) {
    for (const auto& id : part.value(name, json::array()))
      result.lost.push_back({queue, id_of(id)});
  }
  for (const auto& item : part.value("work", json::array()))
    result.work.push_back(work_of(queue, item));
}

}  // namespace

std::string to_json(const WorkBatchOrder& order) {
  const auto& options = order.options;
  json batch{{"instance", order.instance.to_string()},
             {"lease_ms", options.lease.count()},
             {"stale_after_ms", options.stale_after.count()},
             {"notify", false}};
  if (order.joins()) {
    batch["host"] = order.host;
    batch["pid"] = order.pid;
    batch["partition_count"] = options.partition_count;
    batch["max_partitions"] = options.max_partitions_per_instance;
    batch["help_after_ms"] = options.help_after.count();
  }
  auto outbox = part_json(order.outbox);
  if (!outbox.is_null()) {
    if (order.fresh) outbox["fresh"] = true;
    batch["outbox"] = std::move(outbox);
  }
  auto inbox = part_json(order.inbox);
  if (!inbox.is_null()) batch["inbox"] = std::move(inbox);
  return batch.dump();
}

WorkResult work_result_from_json(std::string_view text) {
  const auto object = json::parse(text);
  WorkResult result;
  read_part(WorkKind::outbox, object.at("outbox"), result);
  read_part(WorkKind::inbox, object.at("inbox"), result);
  if (const auto found = object.find("instance"); found != object.end()) {
    result.share = WorkShare{.live_instances = found->at("live").get<int>(),
                             .rank = found->at("rank").get<int>(),
                             .partitions = found->at("partitions").get<int>(),
                             .stale_removed = found->at("stale_removed").get<int>()};
  }
  return result;
}

}  // namespace dovetail::storage
