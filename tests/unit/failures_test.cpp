#include "storage/failures.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using namespace dovetail;
using storage::failures_of;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(Failures, AreReadInTheirOrder) {
  const auto failures =
      failures_of(R"([{"attempt":1,"at":5000000,"kind":"failed","error":"busy",)"
                  R"("owner":"01a1ee17-9173-7043-89f9-95ff22a3c818"},)"
                  R"({"attempt":2,"at":6000000,"kind":"lost_lease","error":null,)"
                  R"("owner":"01a1ee179173704389f995ff22a3c818"},)"
                  R"({"attempt":2,"at":7000000,"kind":"expired","error":"too late"}])",
                  "too late");
  ASSERT_THAT(failures, SizeIs(3));
  EXPECT_EQ(failures[0].attempt, 1);
  EXPECT_EQ(failures[0].at, WallTime{std::chrono::seconds{5}});
  EXPECT_EQ(failures[0].kind, FailureKind::failed);
  EXPECT_EQ(failures[0].error, "busy");
  EXPECT_EQ(failures[0].owner.value().to_string(), "01a1ee17-9173-7043-89f9-95ff22a3c818");
  EXPECT_EQ(failures[1].kind, FailureKind::lost_lease);
  EXPECT_EQ(failures[1].error, std::nullopt);
  EXPECT_EQ(failures[1].owner, failures[0].owner) << "without hyphens, as SQLite stores it";
  EXPECT_EQ(failures[2].kind, FailureKind::expired);
  EXPECT_EQ(failures[2].owner, std::nullopt);
}

TEST(Failures, TheNewestErrorIsTheWholeLastError) {
  const std::string stored =
      R"([{"attempt":1,"error":"abc"},{"attempt":2,"error":"abc"},{"attempt":3}])";
  auto failures = failures_of(stored, "abcdef");
  EXPECT_EQ(failures.at(0).error, "abc");
  EXPECT_EQ(failures.at(1).error, "abcdef");
  EXPECT_EQ(failures.at(2).error, std::nullopt);
  failures = failures_of(stored, "another");
  EXPECT_EQ(failures.at(1).error, "abc") << "a later step that is no attempt wrote the last error";
}

TEST(Failures, OfAMessageWithoutThemAreNone) {
  EXPECT_THAT(failures_of(std::nullopt, "broken"), IsEmpty());
  for (const auto* text : {"", "{}", "nonsense", "[1, null, []]"})
    EXPECT_THAT(failures_of(text, std::nullopt), IsEmpty()) << text;
}

TEST(Failures, KindsHaveNames) {
  for (const auto kind : {FailureKind::failed, FailureKind::lost_lease, FailureKind::expired})
    EXPECT_EQ(failure_kind(to_string(kind)), kind);
  EXPECT_EQ(failure_kind("odd"), std::nullopt);
}

}  // namespace
