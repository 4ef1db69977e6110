#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/text.hpp"
#include "dovetail/backoff.hpp"
#include "dovetail/ids.hpp"

namespace {

using namespace dovetail;
namespace gen = rc::gen;

// Identifiers

rc::Gen<Uuid> any_uuid() {
  return gen::map(gen::container<std::array<std::uint8_t, 16>>(gen::arbitrary<std::uint8_t>()),
                  [](const Uuid::Bytes& bytes) { return Uuid{bytes}; });
}

std::string lower_case(std::string text) {
  for (auto& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

RC_GTEST_PROP(UuidProperty, ParseReadsTheTextOfToString, ()) {
  const auto id = *any_uuid().as("id");
  RC_ASSERT(Uuid::parse(id.to_string()) == std::optional{id});
}

RC_GTEST_PROP(UuidProperty, ParseAcceptsEveryMixOfCases, ()) {
  const auto id = *any_uuid().as("id");
  auto text = id.to_string();
  for (auto& c : text) {
    if (c >= 'a' && c <= 'f' && *gen::arbitrary<bool>()) c = static_cast<char>(c - 'a' + 'A');
  }
  RC_ASSERT(Uuid::parse(text) == std::optional{id});
}

RC_GTEST_PROP(UuidProperty, OrdersLikeItsText, ()) {
  const auto a = *any_uuid();
  const auto b = *any_uuid();
  RC_ASSERT((a < b) == (a.to_string() < b.to_string()));
}

RC_GTEST_PROP(UuidProperty, ParseReadsAnyTextExactlyOrNotAtAll, (const std::string& text)) {
  const auto id = Uuid::parse(text);
  if (id) RC_ASSERT(id->to_string() == lower_case(text));
}

RC_GTEST_PROP(UuidProperty, ParseReadsADamagedTextExactlyOrNotAtAll, ()) {
  auto text = (*any_uuid()).to_string();
  text[*gen::inRange<std::size_t>(0, text.size())] = *gen::arbitrary<char>();
  const auto id = Uuid::parse(text);
  if (id) RC_ASSERT(id->to_string() == lower_case(text));
}

RC_GTEST_PROP(UuidProperty, ParseRefusesEveryOtherLength, ()) {
  auto text = (*any_uuid()).to_string();
  const auto length =
      *gen::suchThat(gen::inRange<std::size_t>(0, 100), [](auto n) { return n != 36; });
  text.resize(length, '0');
  RC_ASSERT(!Uuid::parse(text));
}

// Backoff

constexpr std::int64_t a_day_in_ms = 24 * 60 * 60 * 1'000;

rc::Gen<std::chrono::milliseconds> any_delay() {
  return gen::map(gen::inRange<std::int64_t>(1, a_day_in_ms),
                  [](auto ms) { return std::chrono::milliseconds{ms}; });
}

/// A number in [0, 1).
rc::Gen<double> any_random() {
  return gen::map(gen::inRange<std::uint32_t>(0, 1U << 31),
                  [](auto n) { return n / static_cast<double>(1U << 31); });
}

RC_GTEST_PROP(BackoffProperty, ExponentialDelayIsBetweenZeroAndTheCap, (int attempt)) {
  const ExponentialBackoff backoff{*any_delay(), *any_delay(), *any_random()};
  const auto delay = backoff.delay(attempt, *any_random());
  RC_ASSERT(delay >= std::chrono::milliseconds::zero());
  RC_ASSERT(delay <= backoff.cap);
}

RC_GTEST_PROP(BackoffProperty, ExponentialDelayIsShortenedByTheJitterAtMost, (int attempt)) {
  const ExponentialBackoff backoff{*any_delay(), *any_delay(), *any_random()};
  const auto whole = static_cast<double>(backoff.delay(attempt, 0.0).count());
  const auto delay = static_cast<double>(backoff.delay(attempt, *any_random()).count());
  RC_ASSERT(delay <= whole);
  RC_ASSERT(delay >= whole * (1.0 - backoff.jitter) - 1.0);
}

RC_GTEST_PROP(BackoffProperty, ExponentialDelayNeverDecreasesWithAttempts, ()) {
  const ExponentialBackoff backoff{*any_delay(), *any_delay(), *any_random()};
  const auto attempt = *gen::inRange(-3, 70);
  const auto random = *any_random();
  RC_ASSERT(backoff.delay(attempt, random) <= backoff.delay(attempt + 1, random));
}

RC_GTEST_PROP(BackoffProperty, FullJitterDelayIsBetweenZeroAndTheCap, (int attempt)) {
  const FullJitterBackoff backoff{*any_delay(), *any_delay()};
  const auto delay = backoff.delay(attempt, *any_random());
  RC_ASSERT(delay >= std::chrono::milliseconds::zero());
  RC_ASSERT(delay <= backoff.cap);
}

// UTF-8

using CodePoints = std::vector<std::uint32_t>;

/// Code points except NUL and the surrogates, each encoded length with the same probability.
rc::Gen<CodePoints> any_code_points() {
  return gen::container<CodePoints>(gen::oneOf(
      gen::inRange<std::uint32_t>(0x1, 0x80), gen::inRange<std::uint32_t>(0x80, 0x800),
      gen::inRange<std::uint32_t>(0x800, 0xD800), gen::inRange<std::uint32_t>(0xE000, 0x10000),
      gen::inRange<std::uint32_t>(0x10000, 0x110000)));
}

std::string encoded(std::uint32_t point) {
  const auto tail = [point](int shift) {
    return static_cast<char>(0x80 | (point >> shift & 0x3F));
  };
  if (point < 0x80) return {static_cast<char>(point)};
  if (point < 0x800) return {static_cast<char>(0xC0 | point >> 6), tail(0)};
  if (point < 0x10000) return {static_cast<char>(0xE0 | point >> 12), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | point >> 18), tail(12), tail(6), tail(0)};
}

std::string encoded(const CodePoints& points) {
  std::string text;
  for (const auto point : points) text += encoded(point);
  return text;
}

RC_GTEST_PROP(Utf8Property, LengthIsTheNumberOfCodePoints, ()) {
  const auto points = *any_code_points();
  RC_ASSERT(core::utf8_length(encoded(points)) == std::optional{points.size()});
}

RC_GTEST_PROP(Utf8Property, TextThatEndsInsideACharacterIsRefused, ()) {
  auto text = encoded(*any_code_points()) + encoded(*gen::inRange<std::uint32_t>(0x80, 0xD800));
  text.pop_back();
  RC_ASSERT(!core::utf8_length(text));
}

RC_GTEST_PROP(Utf8Property, SurrogatesAreRefusedInAnyText, ()) {
  const auto surrogate = *gen::inRange<std::uint32_t>(0xD800, 0xE000);
  RC_ASSERT(!core::utf8_length(encoded(*any_code_points()) + encoded(surrogate) +
                               encoded(*any_code_points())));
}

RC_GTEST_PROP(Utf8Property, TrimmedTextIsAValidPrefixWithinTheLimit, ()) {
  const auto text = encoded(*any_code_points());
  const auto limit = *gen::inRange<std::size_t>(0, text.size() + 3);
  const auto kept = core::trimmed(text, limit);
  RC_ASSERT(kept.size() <= limit);
  RC_ASSERT(text.starts_with(kept));
  RC_ASSERT(core::utf8_length(kept).has_value());
}

RC_GTEST_PROP(Utf8Property, TrimmingRemovesOnlyTheCharacterThatDoesNotFit, ()) {
  const auto text = encoded(*any_code_points());
  const auto limit = *gen::inRange<std::size_t>(0, text.size() + 3);
  RC_ASSERT(core::trimmed(text, limit).size() + 3 >= std::min(limit, text.size()));
}

// Text with a placeholder

/// Text that resembles a placeholder but contains none.
rc::Gen<std::string> any_text_without_mark() {
  const auto piece = gen::oneOf(
      gen::element<std::string>("{", "}", "schema", "{schema", "schema}", "{schem", "a}"),
      gen::arbitrary<std::string>());
  const auto text =
      gen::map(gen::container<std::vector<std::string>>(piece), [](const auto& pieces) {
        std::string joined;
        for (const auto& part : pieces) joined += part;
        return joined;
      });
  return gen::suchThat(
      text, [](const std::string& s) { return s.find("{schema}") == std::string::npos; });
}

RC_GTEST_PROP(WithSchemaProperty, DoesNotChangeTextWithoutAPlaceholder, ()) {
  const auto text = *any_text_without_mark();
  RC_ASSERT(core::with_schema(text, "infra") == text);
}

RC_GTEST_PROP(WithSchemaProperty, ReplacesEveryPlaceholderByTheSchema,
              (const std::string& schema)) {
  const auto before = *any_text_without_mark();
  const auto between = *gen::arbitrary<std::vector<std::uint8_t>>();
  std::string given = before;
  std::string expected = before;
  for (const auto number : between) {
    given += "{schema}" + std::to_string(number);
    expected += schema + std::to_string(number);
  }
  RC_ASSERT(core::with_schema(given, schema) == expected);
}

}  // namespace
