// A service that is a route or a source.
#pragma once

#include "dovetail/transport.hpp"

namespace dovetail::transport {

class Reports {
 public:
  virtual ~Reports() = default;
  [[nodiscard]] virtual TransportInfo info() const = 0;
};

}  // namespace dovetail::transport
