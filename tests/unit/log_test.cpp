#include "dovetail/log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

#include "unit/recording_sink.hpp"

namespace {

using namespace dovetail;
using dovetail::testing::RecordingSink;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

TEST(Logger, PassesLevelEventAndFields) {
  const auto sink = std::make_shared<RecordingSink>();
  Logger{sink}.write(LogLevel::error, "outbox.lost", {{"topic", "order"}, {"count", 3}});
  const auto records = sink->records();
  ASSERT_THAT(records, SizeIs(1));
  EXPECT_EQ(records[0].level, LogLevel::error);
  EXPECT_EQ(records[0].event, "outbox.lost");
  EXPECT_THAT(records[0].fields, ElementsAre(Pair("count", LogField::Value{std::int64_t{3}}),
                                             Pair("topic", LogField::Value{"order"})));
}

TEST(Logger, PassesAnEventWithoutFields) {
  const auto sink = std::make_shared<RecordingSink>();
  Logger{sink}.write(LogLevel::info, "platform.opened", {});
  ASSERT_THAT(sink->records(), SizeIs(1));
  EXPECT_THAT(sink->records()[0].fields, IsEmpty());
}

TEST(Logger, WritesNothingBelowTheSinksLevel) {
  const auto sink = std::make_shared<RecordingSink>(LogLevel::warn);
  const Logger log{sink};
  log.write(LogLevel::debug, "too.fine", {});
  log.write(LogLevel::info, "still.too.fine", {});
  EXPECT_THAT(sink->records(), IsEmpty());
  log.write(LogLevel::warn, "enough", {});
  EXPECT_THAT(sink->records(), SizeIs(1));
}

TEST(Logger, AsksItsSinkWhatIsEnabled) {
  const Logger log{std::make_shared<RecordingSink>(LogLevel::warn)};
  EXPECT_FALSE(log.enabled(LogLevel::info));
  EXPECT_TRUE(log.enabled(LogLevel::warn));
  EXPECT_TRUE(log.enabled(LogLevel::error));
}

TEST(Logger, CopiesShareTheSink) {
  const auto sink = std::make_shared<RecordingSink>();
  const Logger log{sink};
  const auto copy = log;
  copy.write(LogLevel::info, "from.the.copy", {});
  EXPECT_THAT(sink->records(), SizeIs(1));
}

TEST(Logger, OfNobodyIsDisabledAtEveryLevel) {
  for (const auto level : {LogLevel::debug, LogLevel::info, LogLevel::warn, LogLevel::error}) {
    EXPECT_FALSE(Logger{}.enabled(level)) << to_string(level);
    EXPECT_FALSE(null_log_sink()->enabled(level)) << to_string(level);
  }
}

class ThrowingSink : public LogSink {
 public:
  [[nodiscard]] bool enabled(LogLevel) const override { return true; }
  void write(const LogRecord&) override {
    ++writes;
    throw std::runtime_error("disk full");
  }
  int writes = 0;
};

class UndecidedSink final : public ThrowingSink {
 public:
  [[nodiscard]] bool enabled(LogLevel) const override { throw 42; }
};

TEST(Logger, IgnoresASinkThatThrowsWhileWriting) {
  const auto sink = std::make_shared<ThrowingSink>();
  const Logger log{sink};
  EXPECT_NO_THROW(log.write(LogLevel::error, "lost", {}));
  EXPECT_NO_THROW(log.write(LogLevel::error, "lost.again", {}));
  EXPECT_EQ(sink->writes, 2);
}

TEST(Logger, TakesASinkThatThrowsWhenAskedAsDisabled) {
  const auto sink = std::make_shared<UndecidedSink>();
  const Logger log{sink};
  EXPECT_FALSE(log.enabled(LogLevel::error));
  EXPECT_NO_THROW(log.write(LogLevel::error, "lost", {}));
  EXPECT_EQ(sink->writes, 0);
}

TEST(LogField, KeepsTheTypeOfItsValue) {
  using namespace std::string_literals;
  using namespace std::string_view_literals;
  EXPECT_EQ(LogField("f", true).value, LogField::Value{true});
  EXPECT_EQ(LogField("f", -7).value, LogField::Value{std::int64_t{-7}});
  EXPECT_EQ(LogField("f", std::numeric_limits<std::int64_t>::min()).value,
            LogField::Value{std::numeric_limits<std::int64_t>::min()});
  EXPECT_EQ(LogField("f", std::size_t{7}).value, LogField::Value{std::int64_t{7}});
  EXPECT_EQ(LogField("f", 0.5).value, LogField::Value{0.5});
  EXPECT_EQ(LogField("f", "literal").value, LogField::Value{"literal"s});
  EXPECT_EQ(LogField("f", "string"s).value, LogField::Value{"string"s});
  EXPECT_EQ(LogField("f", "view"sv).value, LogField::Value{"view"s});
}

TEST(LogLevel, HasAWordOfItsOwn) {
  std::set<std::string_view> words;
  for (int level = 0; level <= static_cast<int>(LogLevel::off); ++level) {
    words.insert(to_string(static_cast<LogLevel>(level)));
  }
  EXPECT_THAT(words, SizeIs(static_cast<std::size_t>(LogLevel::off) + 1));
  EXPECT_EQ(to_string(LogLevel::warn), "warn");
}

}  // namespace
