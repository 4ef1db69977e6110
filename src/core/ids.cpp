#include "dovetail/ids.hpp"

#include <pthread.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <system_error>

namespace dovetail {
namespace {

void ask_kernel(void* target, std::size_t size) {
  auto* bytes = static_cast<unsigned char*>(target);
  while (size > 0) {
    auto got = ::getrandom(bytes, size, 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      throw std::system_error(errno, std::generic_category(), "getrandom");
    }
    bytes += got;
    size -= static_cast<std::size_t>(got);
  }
}

/// Counts the forks between the first process and this one. A child must not draw the same random
/// numbers as its parent.
unsigned forks() {
  static std::atomic<unsigned> count{0};
  [[maybe_unused]] static const int watching = ::pthread_atfork(nullptr, nullptr, [] { ++count; });
  return count;
}

/// Takes random bytes from a buffer per thread: a system call for each id would cost more than
/// everything else.
void fill_random(void* target, std::size_t size) {
  struct Supply {
    std::array<unsigned char, 2048> bytes;
    std::size_t left = 0;
    unsigned forks = 0;
  };
  thread_local Supply supply{};
  if (supply.left < size || supply.forks != forks()) {
    supply.left = 0;
    ask_kernel(supply.bytes.data(), supply.bytes.size());
    supply.left = supply.bytes.size();
    supply.forks = forks();
  }
  supply.left -= size;
  std::memcpy(target, supply.bytes.data() + supply.left, size);
}

constexpr std::uint8_t variant_bits(std::uint8_t byte) {
  return static_cast<std::uint8_t>((byte & 0x3F) | 0x80);
}

/// The time and counter part of a version 7 UUID: 48 bits of milliseconds and a counter of 12 bits
/// within a millisecond.
class OrderedPrefix {
 public:
  std::uint64_t next(std::uint64_t now_ms, std::uint16_t random) {
    std::lock_guard lock(mutex_);
    if (now_ms > last_ >> 12) {
      // A new millisecond starts its counter in the lower half of the range, so that the upper half
      // is left to count.
      last_ = now_ms << 12 | (random & 0x7FFU);
    } else {
      // Same millisecond, or the clock went back: count on. An overflow carries into the
      // milliseconds.
      ++last_;
    }
    return last_;
  }

 private:
  std::mutex mutex_;
  std::uint64_t last_ = 0;
};

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

constexpr bool hyphen_at(std::size_t position) {
  return position == 8 || position == 13 || position == 18 || position == 23;
}

}  // namespace

Uuid Uuid::v7() {
  static OrderedPrefix prefix;
  // The tail is random for every id, and a forked child draws its own: it never repeats its
  // parent's ids.
  std::array<std::uint8_t, 10> random{};
  fill_random(random.data(), random.size());
  auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  std::uint16_t seed = 0;
  std::memcpy(&seed, random.data() + 8, sizeof seed);
  const auto ordered = prefix.next(static_cast<std::uint64_t>(now.count()), seed);

  Bytes bytes{};
  for (int i = 0; i < 6; ++i) bytes[i] = static_cast<std::uint8_t>(ordered >> (52 - 8 * i));
  bytes[6] = static_cast<std::uint8_t>(0x70 | (ordered >> 8 & 0x0F));
  bytes[7] = static_cast<std::uint8_t>(ordered);
  std::copy_n(random.begin(), 8, bytes.begin() + 8);
  bytes[8] = variant_bits(bytes[8]);
  return Uuid{bytes};
}

Uuid Uuid::random() {
  Bytes bytes{};
  fill_random(bytes.data(), bytes.size());
  bytes[6] = static_cast<std::uint8_t>((bytes[6] & 0x0F) | 0x40);
  bytes[8] = variant_bits(bytes[8]);
  return Uuid{bytes};
}

std::optional<Uuid> Uuid::parse(std::string_view text) {
  if (text.size() != 36) return std::nullopt;
  Bytes bytes{};
  std::size_t nibble = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (hyphen_at(i)) {
      if (text[i] != '-') return std::nullopt;
      continue;
    }
    const int digit = hex_digit(text[i]);
    if (digit < 0) return std::nullopt;
    auto& byte = bytes[nibble / 2];
    byte = static_cast<std::uint8_t>(byte << 4 | digit);
    ++nibble;
  }
  return Uuid{bytes};
}

std::string Uuid::to_string() const {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  text.reserve(36);
  for (auto byte : bytes_) {
    if (hyphen_at(text.size())) text += '-';
    text += digits[byte >> 4];
    text += digits[byte & 0x0F];
  }
  return text;
}

}  // namespace dovetail

std::size_t std::hash<dovetail::Uuid>::operator()(const dovetail::Uuid& id) const noexcept {
  // The low half of versions 4 and 7 is random already.
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  std::memcpy(&high, id.bytes().data(), sizeof high);
  std::memcpy(&low, id.bytes().data() + 8, sizeof low);
  return low ^ (high * 0x9E3779B97F4A7C15ULL);
}
