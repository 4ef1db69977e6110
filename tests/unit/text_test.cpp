#include "core/text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace {

using namespace dovetail::core;
using namespace std::string_literals;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Utf8Length, CountsCodePointsNotBytes) {
  EXPECT_EQ(utf8_length(""), 0U);
  EXPECT_EQ(utf8_length("order"), 5U);
  EXPECT_EQ(utf8_length("Gr\xC3\xBC\xC3\x9F"
                        "e"),
            5U);
  EXPECT_EQ(utf8_length("\xE2\x82\xAC"), 1U);                      // €
  EXPECT_EQ(utf8_length("\xF0\x9F\x98\x80\xF0\x9F\x98\x80"), 2U);  // two emoji
  EXPECT_EQ(utf8_length("e\xCC\x81"), 2U);                         // e and a combining accent
}

TEST(Utf8Length, AcceptsTheFirstAndLastCodePointOfEveryLength) {
  for (const auto& text : {"\x01"s, "\x7F"s, "\xC2\x80"s, "\xDF\xBF"s, "\xE0\xA0\x80"s,
                           "\xEF\xBF\xBF"s, "\xF0\x90\x80\x80"s, "\xF4\x8F\xBF\xBF"s}) {
    EXPECT_EQ(utf8_length(text), 1U) << ::testing::PrintToString(text);
  }
}

TEST(Utf8Length, AcceptsTheNeighboursOfTheSurrogates) {
  EXPECT_EQ(utf8_length("\xED\x9F\xBF"), 1U);  // U+D7FF
  EXPECT_EQ(utf8_length("\xEE\x80\x80"), 1U);  // U+E000
}

void expect_refused_wherever_it_stands(const std::string& bad) {
  EXPECT_EQ(utf8_length(bad), std::nullopt) << ::testing::PrintToString(bad);
  EXPECT_EQ(utf8_length("before " + bad), std::nullopt) << ::testing::PrintToString(bad);
  EXPECT_EQ(utf8_length(bad + " after"), std::nullopt) << ::testing::PrintToString(bad);
}

TEST(Utf8Length, RefusesNul) {
  expect_refused_wherever_it_stands("\0"s);
}

TEST(Utf8Length, RefusesCharactersThatAreCutShort) {
  for (const auto& bad :
       {"\xC3"s, "\xE2\x82"s, "\xE2"s, "\xF0\x9F\x98"s, "\xF0\x9F"s, "\xC3\xC3\xBC"s}) {
    expect_refused_wherever_it_stands(bad);
  }
}

TEST(Utf8Length, DoesNotReadBeyondTheEndOfItsView) {
  const std::string_view text = "\xF0\x9F\x98\x80";
  for (std::size_t length = 1; length < text.size(); ++length) {
    EXPECT_EQ(utf8_length(text.substr(0, length)), std::nullopt) << length;
  }
}

TEST(Utf8Length, RefusesOverlongForms) {
  for (const auto& bad : {"\xC0\x80"s, "\xC0\xAF"s, "\xC1\xBF"s, "\xE0\x80\x80"s, "\xE0\x9F\xBF"s,
                          "\xF0\x80\x80\x80"s, "\xF0\x8F\xBF\xBF"s}) {
    expect_refused_wherever_it_stands(bad);
  }
}

TEST(Utf8Length, RefusesSurrogates) {
  for (const auto& bad : {"\xED\xA0\x80"s, "\xED\xBF\xBF"s, "\xED\xA0\xBD\xED\xB8\x80"s}) {
    expect_refused_wherever_it_stands(bad);
  }
}

TEST(Utf8Length, RefusesCodePointsAboveTheLast) {
  for (const auto& bad : {"\xF4\x90\x80\x80"s, "\xF7\xBF\xBF\xBF"s, "\xF8\x88\x80\x80\x80"s,
                          "\xFC\x84\x80\x80\x80\x80"s}) {
    expect_refused_wherever_it_stands(bad);
  }
}

TEST(Utf8Length, RefusesBytesThatStartNoCharacter) {
  for (const auto& bad : {"\x80"s, "\xBF"s, "\xFE"s, "\xFF"s, "Gr\xFC\xDF"s})
    expect_refused_wherever_it_stands(bad);
}

TEST(RequireIdentifier, AcceptsLowerCaseWordsWithDigitsAndUnderscores) {
  for (const auto* name : {"a", "_", "infra", "_hidden", "t_0190b8a2", "a1", "select"}) {
    EXPECT_NO_THROW(require_identifier("schema", name)) << name;
  }
}

TEST(RequireIdentifier, AcceptsFiftyOneCharactersAndRefusesFiftyTwo) {
  EXPECT_NO_THROW(require_identifier("schema", std::string(51, 'a')));
  EXPECT_THROW(require_identifier("schema", std::string(52, 'a')), std::invalid_argument);
}

TEST(RequireIdentifier, RefusesWhatCouldEscapeFromSql) {
  for (const auto& name : {""s,         "Infra"s,      "1a"s,
                           "a b"s,      " a"s,         "a "s,
                           "a-b"s,      "a.b"s,        "a;drop table x"s,
                           "a\"b"s,     "a'b"s,        "a`b"s,
                           "a\\b"s,     "a$b"s,        "a\n"s,
                           "a\0"s,      "\0"s,         "a--"s,
                           "{schema}"s, "gr\xC3\xBC"s, "a\xFF"s,
                           "../a"s,     "%s"s}) {
    EXPECT_THROW(require_identifier("schema", name), std::invalid_argument)
        << ::testing::PrintToString(name);
  }
}

std::string refusal_of(std::string_view what, std::string_view name) {
  try {
    require_identifier(what, name);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(RequireIdentifier, SaysWhatWasRefusedAndTheRule) {
  const auto message = refusal_of("schema", "Bad Name");
  EXPECT_THAT(message, HasSubstr("schema"));
  EXPECT_THAT(message, HasSubstr("\"Bad Name\""));
  EXPECT_THAT(message, HasSubstr("^[a-z_][a-z0-9_]{0,50}$"));
}

TEST(RequireIdentifier, DoesNotRepeatAnEndlessName) {
  EXPECT_LT(refusal_of("schema", std::string(100'000, 'x')).size(), 200U);
}

TEST(Trimmed, LeavesTextWithinTheLimitAlone) {
  EXPECT_EQ(trimmed("abc", 3), "abc");
  EXPECT_EQ(trimmed("abc", 100), "abc");
  EXPECT_EQ(trimmed("", 0), "");
}

TEST(Trimmed, CutsAtTheLimit) {
  EXPECT_EQ(trimmed("abc", 2), "ab");
  EXPECT_EQ(trimmed("abc", 0), "");
}

TEST(Trimmed, CutsBeforeACharacterThatDoesNotFitWhole) {
  const std::string_view text =
      "a\xC3\xBC\xE2\x82\xAC\xF0\x9F\x98\x80";  // a ü € emoji: 1, 2, 3 and 4 bytes
  EXPECT_EQ(trimmed(text, 1), text.substr(0, 1));
  EXPECT_EQ(trimmed(text, 2), text.substr(0, 1));
  EXPECT_EQ(trimmed(text, 3), text.substr(0, 3));
  EXPECT_EQ(trimmed(text, 5), text.substr(0, 3));
  EXPECT_EQ(trimmed(text, 6), text.substr(0, 6));
  EXPECT_EQ(trimmed(text, 9), text.substr(0, 6));
  EXPECT_EQ(trimmed(text, 10), text);
}

TEST(Trimmed, OfMalformedTextStaysWithinTheLimit) {
  EXPECT_EQ(trimmed("\x80\x80\x80\x80", 2), "");
  EXPECT_EQ(trimmed("ab\xFF\xFF", 3), "ab\xFF");
}

TEST(WithSchema, ReplacesEveryMark) {
  EXPECT_EQ(with_schema("select * from {schema}.a join {schema}.b", "infra"),
            "select * from infra.a join infra.b");
  EXPECT_EQ(with_schema("{schema}{schema}", "x"), "xx");
  EXPECT_EQ(with_schema("{schema}", ""), "");
}

TEST(WithSchema, LeavesEverythingElseAlone) {
  EXPECT_EQ(with_schema("", "infra"), "");
  EXPECT_EQ(with_schema("select '{}', '{Schema}', '{schema'", "infra"),
            "select '{}', '{Schema}', '{schema'");
}

TEST(WithSchema, DoesNotReplaceInsideWhatItPutIn) {
  EXPECT_EQ(with_schema("a {schema} b", "{schema}"), "a {schema} b");
  EXPECT_EQ(with_schema("{sch{schema}ema}", ""), "{schema}");
}

TEST(Printable, LeavesGoodTextAndReplacesWhatIsNot) {
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable("a \xC3\xA4 \xF0\x9F\x98\x80"), "a \xC3\xA4 \xF0\x9F\x98\x80");
  EXPECT_EQ(printable("a\xFF\xC3"), "a??");
  EXPECT_EQ(printable(std::string_view{"a\0b", 3}), "a?b");
  EXPECT_EQ(printable("\xED\xA0\x80"), "???") << "a surrogate";
}

}  // namespace
