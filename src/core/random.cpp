#include "core/random.hpp"

#include <random>

namespace dovetail::core {

double random_unit() {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  return std::uniform_real_distribution<double>{0.0, 1.0}(generator);
}

}  // namespace dovetail::core
