#include <gtest/gtest.h>

#include "core/headers.hpp"

namespace {

using namespace dovetail;

TEST(HeadersJson, IsReadBackAsItWasWritten) {
  for (const Headers& headers :
       {Headers{}, Headers{{"a", "b"}},
        Headers{{"quote", "\"\\"}, {"line", "1\n2"}, {"\xC3\xA4", "\xF0\x9F\x98\x80"}, {"", ""}}}) {
    EXPECT_EQ(core::headers_from_json(core::to_json(headers)), headers);
  }
}

TEST(HeadersJson, WhatSomebodyElseWroteIsReadAsFarAsItGoes) {
  EXPECT_EQ(core::headers_from_json(R"({"a": "b", "n": 1, "o": {}, "z": null})"),
            (Headers{{"a", "b"}}));
  for (const auto* text : {"", "[]", "nonsense", "{\"a\":", "\"text\""})
    EXPECT_EQ(core::headers_from_json(text), Headers{});
}

}  // namespace
