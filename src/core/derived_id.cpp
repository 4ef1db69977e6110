#include "core/derived_id.hpp"

namespace dovetail::core {
namespace {

/// One round of splitmix64: every bit of the result depends on every bit of the value.
std::uint64_t mixed(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15U;
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31U);
}

}  // namespace

Uuid derived_id(const Uuid& source, Derived purpose, std::uint64_t index) {
  auto bytes = source.bytes();
  std::uint64_t state = mixed(static_cast<std::uint64_t>(purpose) ^ mixed(index));
  for (std::size_t half = 0; half < bytes.size(); half += 8) {
    std::uint64_t word = 0;
    for (std::size_t i = half; i < half + 8; ++i) word = word << 8U | bytes[i];
    state = mixed(state ^ word);
  }
  for (std::size_t i = 8; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(state >> (8U * (i - 8)));
  bytes[6] = static_cast<std::uint8_t>((bytes[6] & 0x0FU) | 0x80U);  // version 8
  bytes[8] = static_cast<std::uint8_t>((bytes[8] & 0x3FU) | 0x80U);  // RFC 9562's variant
  return Uuid{bytes};
}

}  // namespace dovetail::core
