// A service that renews leases.
#pragma once

#include "component/service.hpp"

namespace dovetail::component {

class Renews {
 public:
  virtual ~Renews() = default;
  /// Its renewals: how many have failed in a row, and why.
  [[nodiscard]] virtual ServiceHealth renewals() const = 0;
};

}  // namespace dovetail::component
