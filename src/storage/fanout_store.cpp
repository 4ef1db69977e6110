#include "storage/fanout_store.hpp"

#include <nlohmann/json.hpp>

#include "dovetail/error.hpp"

namespace dovetail::storage {
namespace {

/// FNV-1a.
std::uint64_t hash_of(std::string_view text, std::uint64_t hash) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return (hash ^ 0xFFU) * 0x100000001B3U;  // 0xFF is in no UTF-8: it ends the text
}

/// The last bytes of a text change only the low bits of FNV-1a.
std::uint64_t mixed_hash(std::uint64_t hash) {
  hash = (hash ^ (hash >> 33U)) * 0xFF51AFD7ED558CCDU;
  hash = (hash ^ (hash >> 33U)) * 0xC4CEB9FE1A85EC53U;
  return hash ^ (hash >> 33U);
}

}  // namespace

std::string slice_payload(const FanoutSlice& slice, std::chrono::milliseconds settle) {
  nlohmann::ordered_json object{{"topic", slice.topic},
                                {"work_key", slice.work_key},
                                {"shard_key", slice.shard_key},
                                {"window_start", nullptr}};
  if (slice.window_start) object["window_start"] = to_string(*slice.window_start);
  if (settle.count() > 0) object["settle_ms"] = settle.count();
  return object.dump();
}

std::int64_t slice_spread(std::string_view topic, const FanoutCandidate& candidate) {
  const auto hash = hash_of(candidate.shard_key,
                            hash_of(candidate.work_key, hash_of(topic, 0xCBF29CE484222325U)));
  return static_cast<std::int64_t>(mixed_hash(hash) >> 1U);
}

std::string candidates_json(std::string_view topic, std::span<const FanoutCandidate> candidates) {
  auto array = nlohmann::json::array();
  for (const auto& each : candidates) {
    array.push_back({each.shard_key, each.work_key, slice_spread(topic, each)});
  }
  return array.dump();
}

FanoutStatus fanout_status_of(std::string_view word) {
  for (const auto status :
       {FanoutStatus::idle, FanoutStatus::ready, FanoutStatus::in_progress, FanoutStatus::failed}) {
    if (to_string(status) == word) return status;
  }
  throw InvalidOperation("no status of a slice: " + std::string{word});
}

}  // namespace dovetail::storage
