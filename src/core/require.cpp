#include "core/require.hpp"

#include <stdexcept>
#include <string>

#include "core/text.hpp"

namespace dovetail::core {
namespace {

constexpr int max_batch_size = 10'000;

}  // namespace

std::size_t require_text(const char* what, std::string_view text) {
  const auto length = core::utf8_length(text);
  if (!length) throw std::invalid_argument(std::string{what} + " must be valid UTF-8 without NUL");
  return *length;
}

void require_length(const char* what, std::string_view text, std::size_t limit) {
  const auto length = require_text(what, text);
  if (length > limit) {
    throw std::invalid_argument(std::string{what} + " must not exceed " + std::to_string(limit) +
                                " characters, got " + std::to_string(length));
  }
}

void require_time(const char* what, WallTime time) {
  using std::chrono::January;
  using std::chrono::year;
  constexpr WallTime first = std::chrono::sys_days{year{1} / January / 1};
  constexpr WallTime last = std::chrono::sys_days{year{10000} / January / 1};
  if (time < first || time >= last) {
    throw std::out_of_range(std::string{what} + " must lie in the years 1 to 9999");
  }
}

void require_batch_size(const char* what, int size) {
  if (size < 1 || size > max_batch_size) {
    throw std::out_of_range(std::string{what} + " must be 1 to " + std::to_string(max_batch_size) +
                            ", got " + std::to_string(size));
  }
}

}  // namespace dovetail::core
