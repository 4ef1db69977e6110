// The gauges of a sample.
#pragma once

#include "dovetail/metrics.hpp"
#include "dovetail/sample.hpp"

namespace dovetail::observe {

/// Sets the gauges of a database. `before` is its last sample: gauges that it had and that the new
/// one lacks are removed. Null: there is none.
void set_gauges(const Metrics& metrics, const StoreSample* before, const StoreSample& now);

/// Removes the gauges of a database that has left.
void remove_gauges(const Metrics& metrics, const StoreSample& last);

}  // namespace dovetail::observe
