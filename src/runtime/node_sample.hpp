// The state of a node's database, for gauges and overviews.
#pragma once

#include <memory>

#include "dovetail/sample.hpp"
#include "observe/sampler.hpp"
#include "runtime/node.hpp"

namespace dovetail::runtime {

/// Reads the state. Throws Error if the database does not answer before `stop` fires.
[[nodiscard]] StoreSample sample_of(Node& node, const std::stop_token& stop);

/// The node as a source of samples, as long as it exists.
[[nodiscard]] observe::Sampler::Source sample_source(const std::shared_ptr<Node>& node);

}  // namespace dovetail::runtime
