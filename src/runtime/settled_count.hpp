// Counts the settlements of a round trip by topic and outcome.
#pragma once

#include <span>

#include "runtime/invocation.hpp"
#include "runtime/ledger.hpp"

namespace dovetail::runtime {

/// Counts `settled` of these messages. The database does not name the messages whose leases were
/// lost; those whose leases have expired by our clock are left out first.
void count_settled(const QueueScope& scope, std::span<const Finished> finished, std::size_t settled,
                   MonoTime now);

}  // namespace dovetail::runtime
