// Shared parts of the commands about dead letters, for one database and for a group.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/cli.hpp"

namespace dovetail::cli {

struct DeadLetterArguments {
  std::string queue = default_queue;
  std::vector<std::string> ids;
  std::string id;  ///< show
  std::string topic;
  std::string after;
  std::string before;
  std::string start_after;
  int limit = 100;
  bool all = false;
  bool newest = false;
  bool dry_run = false;

  [[nodiscard]] DeadLetterFilter filter() const;
  [[nodiscard]] bool has_filter() const {
    return !topic.empty() || !after.empty() || !before.empty();
  }
  [[nodiscard]] DeadLetterPage page() const;
  /// The ids of replay and purge; empty when a filter or --all was given. Throws
  /// std::invalid_argument unless exactly one of the three was given.
  [[nodiscard]] std::vector<MessageId> selected_ids() const;
};

/// A change and its names, such as `replay` and `replayed`. `apply` makes the change and returns
/// the number of messages that changed.
struct LetterChange {
  std::string name;
  std::string past;
  std::function<std::size_t(WorkQueue&)> apply;
};

/// The dead letters that a change would affect: their number, and the first of them.
struct Concerned {
  std::size_t count = 0;
  std::vector<StoredMessage> first{};

  void add(StoredMessage letter);
};
[[nodiscard]] Concerned concerned(WorkQueue& queue, const DeadLetterArguments& arguments);
inline constexpr std::size_t dry_run_shown = 100;

inline constexpr const char* why_unchanged =
    "there is no dead letter with this id, or a live message has taken its unique key";

[[nodiscard]] const std::vector<std::string>& letter_headings();
[[nodiscard]] std::vector<std::string> letter_row(const StoredMessage& letter);
[[nodiscard]] const std::vector<std::string>& summary_headings();
[[nodiscard]] std::vector<std::vector<std::string>> summary_rows(const DeadLetterSummary& summary);
void print_message(const StoredMessage& stored);

// --- the commands with --group
void list_group_letters(const Globals& globals, const DeadLetterArguments& arguments);
void summarize_group_letters(const Globals& globals, const DeadLetterArguments& arguments,
                             const DeadLetterSummaryLimits& limits);
void show_group_letter(const Globals& globals, const DeadLetterArguments& arguments);
void change_group_letters(const Globals& globals, const DeadLetterArguments& arguments,
                          const LetterChange& change);

}  // namespace dovetail::cli
