#include "storage/confirmed_write.hpp"

#include <gtest/gtest.h>

#include <deque>

#include "storage/retry.hpp"

namespace {

using namespace dovetail;

/// Retries a body after each of the given errors, as Database::write does.
class Flaky {
 public:
  struct Run {
    std::optional<ErrorKind> fails{};  ///< The error after the body, as of a commit.
  };
  explicit Flaky(std::deque<Run> runs) : runs_(std::move(runs)) {}

  void write(const storage::WriteOptions& options, const storage::WriteBody& body) {
    storage::run_with_retry(*system_clock(), Logger{null_log_sink()},
                            {.backoff = {.initial = {}, .cap = {}}}, options,
                            [&](const storage::Attempt& attempt) {
                              const auto run = runs_.empty() ? Run{} : runs_.front();
                              if (!runs_.empty()) runs_.pop_front();
                              body(session_, attempt);
                              if (run.fails) throw Error({*run.fails, "", "commit"}, "no luck");
                            });
  }

 private:
  class Nothing final : public storage::WriteSession {
   public:
    Rows query(std::string_view, std::span<const Parameter>) override { return {}; }
    std::size_t execute(std::string_view, std::span<const Parameter>) override { return 0; }
  };
  Nothing session_;
  std::deque<Run> runs_;
};

/// The result of a confirmed write whose attempts return `answers`, one after the other.
bool answered(std::deque<Flaky::Run> failures, std::deque<bool> answers, bool confirmed = true) {
  Flaky database(std::move(failures));
  return storage::confirmed_write(
      database, {},
      [&](storage::WriteSession&) {
        const bool answer = answers.front();
        answers.pop_front();
        return answer;
      },
      [&](storage::WriteSession&) { return confirmed; });
}

TEST(ConfirmedWrite, AnswersWhatItsOnlyRunAnswers) {
  EXPECT_TRUE(answered({}, {true}));
  EXPECT_FALSE(answered({}, {false}));
}

TEST(ConfirmedWrite, ForgetsARunThatCertainlyRolledBack) {
  EXPECT_FALSE(answered({{ErrorKind::deadlock}}, {true, false}));
  EXPECT_TRUE(answered({{ErrorKind::deadlock}}, {false, true}));
}

TEST(ConfirmedWrite, KeepsARunThatMayHaveCommittedIfItsEffectIsThere) {
  EXPECT_TRUE(answered({{ErrorKind::commit_in_doubt}}, {true, false}));
  EXPECT_FALSE(answered({{ErrorKind::commit_in_doubt}}, {true, false}, false));
  EXPECT_FALSE(answered({{ErrorKind::commit_in_doubt}}, {false, false}))
      << "it had changed nothing";
  EXPECT_TRUE(
      answered({{ErrorKind::commit_in_doubt}, {ErrorKind::deadlock}}, {true, false, false}));
  EXPECT_FALSE(
      answered({{ErrorKind::deadlock}, {ErrorKind::commit_in_doubt}}, {true, false, false}));
}

/// The result of a confirmed write. An attempt returns its number if it changed anything.
std::optional<int> answer_of(std::deque<Flaky::Run> failures, std::deque<bool> changes) {
  Flaky database(std::move(failures));
  return storage::confirmed_answer<int>(
      database, {}, [&](storage::WriteSession&, const storage::Attempt& attempt) {
        const bool changed = changes.front();
        changes.pop_front();
        return changed ? std::optional{attempt.number} : std::nullopt;
      });
}

TEST(ConfirmedAnswer, IsTheAnswerOfTheRunThatTookEffect) {
  EXPECT_EQ(answer_of({}, {true}), 1);
  EXPECT_EQ(answer_of({}, {false}), std::nullopt);
  EXPECT_EQ(answer_of({{ErrorKind::commit_in_doubt}}, {true, false}), 1);
  EXPECT_EQ(answer_of({{ErrorKind::commit_in_doubt}}, {true, true}), 2);
  EXPECT_EQ(answer_of({{ErrorKind::commit_in_doubt}, {ErrorKind::deadlock}}, {true, false, false}),
            1);
}

TEST(ConfirmedAnswer, IsNeverThatOfARunThatCertainlyRolledBack) {
  EXPECT_EQ(answer_of({{ErrorKind::deadlock}}, {true, false}), std::nullopt);
  EXPECT_EQ(answer_of({{ErrorKind::commit_in_doubt}, {ErrorKind::deadlock}}, {true, true, false}),
            std::nullopt)
      << "the second run shows that the first one was rolled back";
  EXPECT_EQ(answer_of({{ErrorKind::deadlock}, {ErrorKind::commit_in_doubt}}, {true, false, false}),
            std::nullopt);
}

}  // namespace
