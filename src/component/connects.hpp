// A service that connects to another system, such as a broker.
#pragma once

#include <optional>
#include <string>

namespace dovetail::component {

class Connects {
 public:
  virtual ~Connects() = default;
  /// What is wrong with the other system. Absent: nothing.
  [[nodiscard]] virtual std::optional<std::string> outage() const = 0;
};

}  // namespace dovetail::component
