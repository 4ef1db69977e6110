// The rules of fan-outs: limits, names, and the payload of slices.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "dovetail/fanout.hpp"

namespace dovetail::fanout {

// These throw std::invalid_argument or std::out_of_range, with the limit in the text.
void require_topic(std::string_view topic);
void require_work_key(std::string_view work_key);
void require_work_key(const std::optional<std::string>& work_key);
void require_shard_key(std::string_view shard_key);
void require_every(std::chrono::milliseconds every);
void require_jitter(std::chrono::milliseconds jitter);
void require_age(std::chrono::milliseconds age);
void require_request(const FanoutRequest& request);
void require_slice(const FanoutSlice& slice);

/// The name of a fan-out and of its lease: `fanout:etl:payments`, or `fanout:etl` for all keys.
[[nodiscard]] std::string name_of(std::string_view topic,
                                  const std::optional<std::string>& work_key);
/// The name of the job, at most 100 characters. A longer name is cut, and ends with its hash.
[[nodiscard]] std::string job_name(std::string_view topic,
                                   const std::optional<std::string>& work_key);
/// The topic of the job's messages. It differs from the topics of slices.
[[nodiscard]] std::string round_topic(std::string_view topic,
                                      const std::optional<std::string>& work_key);

}  // namespace dovetail::fanout
