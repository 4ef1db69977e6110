#include "dovetail/trace.hpp"

#include <algorithm>
#include <span>

#include "dovetail/ids.hpp"

namespace dovetail {
namespace {

constexpr std::size_t version_length = 55;  // of a traceparent of version 00
constexpr std::string_view hex_digits = "0123456789abcdef";

thread_local std::optional<TraceContext> context_of_this_thread;

/// Reads digits in lower case. Returns false if there are others, or if all bytes are zero.
bool read_hex(std::string_view text, std::span<std::uint8_t> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto high = hex_digits.find(text[2 * i]);
    const auto low = hex_digits.find(text[2 * i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return false;
    bytes[i] = static_cast<std::uint8_t>(high << 4U | low);
  }
  return true;
}

bool is_zero(std::span<const std::uint8_t> bytes) {
  return std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; });
}

void append_hex(std::string& text, std::span<const std::uint8_t> bytes) {
  for (const auto byte : bytes) {
    text += hex_digits[byte >> 4U];
    text += hex_digits[byte & 15U];
  }
}

void set_random(std::span<std::uint8_t> bytes) {
  do {
    const auto random = Uuid::random().bytes();
    // The last eight bytes of a random UUID have two fixed bits, the first eight four.
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::uint8_t>(random[random.size() - 1 - i]);
    }
  } while (is_zero(bytes));
}

}  // namespace

std::optional<TraceContext> TraceContext::parse(std::string_view traceparent) {
  if (traceparent.size() < version_length) return std::nullopt;
  std::array<std::uint8_t, 1> version{};
  std::array<std::uint8_t, 1> flags{};
  TraceContext context;
  const bool has_dashes = traceparent[2] == '-' && traceparent[35] == '-' && traceparent[52] == '-';
  if (!has_dashes || !read_hex(traceparent.substr(0, 2), version) ||
      !read_hex(traceparent.substr(3, 32), context.trace_id) ||
      !read_hex(traceparent.substr(36, 16), context.span_id) ||
      !read_hex(traceparent.substr(53, 2), flags)) {
    return std::nullopt;
  }
  if (version[0] == 0xff || is_zero(context.trace_id) || is_zero(context.span_id))
    return std::nullopt;
  // A newer version may have more fields.
  const bool has_more = traceparent.size() > version_length;
  if (has_more && (version[0] == 0 || traceparent[version_length] != '-')) return std::nullopt;
  context.sampled = (flags[0] & 1U) != 0;
  return context;
}

TraceContext TraceContext::begin() {
  TraceContext context;
  set_random(context.trace_id);
  set_random(context.span_id);
  return context;
}

TraceContext TraceContext::child() const {
  auto context = *this;
  set_random(context.span_id);
  return context;
}

std::string TraceContext::to_string() const {
  std::string text = "00-";
  append_hex(text, trace_id);
  text += '-';
  append_hex(text, span_id);
  text += sampled ? "-01" : "-00";
  return text;
}

std::optional<TraceContext> current_trace() {
  return context_of_this_thread;
}

TraceScope::TraceScope(std::optional<TraceContext> context) : before_(context_of_this_thread) {
  context_of_this_thread = context;
}

TraceScope::~TraceScope() {
  context_of_this_thread = before_;
}

}  // namespace dovetail
