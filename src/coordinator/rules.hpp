// Checks of batches and options. Each throws std::invalid_argument or std::out_of_range, with the
// limit in the text.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "dovetail/coordinator.hpp"
#include "storage/work_store.hpp"

namespace dovetail::coordinator {

void require_options(const WorkOptions& options);
void require_options(const CoordinatorOptions& options);
void require_claim(const WorkClaim& claim);
void require_failure(std::string_view error, std::optional<std::chrono::milliseconds> delay);
void require_outbox(const EnqueueRequest& request, const StoreOptions& options,
                    const QueueOptions& limits);
void require_inbox(const InboxRequest& request, const StoreOptions& options,
                   const QueueOptions& limits);

/// Throws std::out_of_range unless `least` <= value <= `most`.
void require_range(const char* what, std::int64_t value, std::int64_t least, std::int64_t most);

/// Checks the whole batch. The order points into it.
void fill(storage::WorkBatchOrder& order, const WorkBatch& batch, const QueueOptions& outbox,
          const QueueOptions& inbox);

}  // namespace dovetail::coordinator
