// Randomness for jitter: cheap, per thread, not for secrets.
#pragma once

namespace dovetail::core {

/// A number in [0, 1).
double random_unit();

}  // namespace dovetail::core
