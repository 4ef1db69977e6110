#include "core/host.hpp"

#include <unistd.h>

#include <array>

#include "core/text.hpp"

namespace dovetail::core {

std::string host_name() {
  std::array<char, 128> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "?";
  return printable(name.data());
}

}  // namespace dovetail::core
