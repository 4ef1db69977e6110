// The databases of a group, including those that are leaving.
//
// Threads: from any.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "group/member.hpp"
#include "group/retired_platforms.hpp"

namespace dovetail::group {

class Roster {
 public:
  explicit Roster(const GroupContext& group);
  Roster(const Roster&) = delete;
  Roster& operator=(const Roster&) = delete;

  /// Throws InvalidOperation if the key exists.
  void add(DatabaseEntry entry);
  /// Throws InvalidOperation for a database of the discovery.
  bool remove(std::string_view key);
  /// Makes `entries` the list of the discovery. Unchanged entries keep their member. Keys in
  /// `unclear`, whose new entries are bad, keep it, too. Returns complaints about keys that add()
  /// has used.
  [[nodiscard]] std::vector<std::string> apply(const std::vector<DatabaseEntry>& entries,
                                               const std::set<std::string>& unclear);

  /// Null for an unknown key.
  [[nodiscard]] std::shared_ptr<Member> find(std::string_view key) const;
  /// The same, for the key in any text form of the UUID.
  [[nodiscard]] std::shared_ptr<Member> find(const Uuid& key) const;
  /// The members in the order of the group.
  [[nodiscard]] std::vector<std::shared_ptr<Member>> members() const;
  /// The members, including those that are leaving.
  [[nodiscard]] std::vector<std::shared_ptr<Member>> all() const;

  /// Starts the members, and later each new one.
  void start(const GroupThreads& threads);
  /// Ends members that have left, and releases databases that left long ago. Must not be called by
  /// a step of a member.
  void sweep();
  /// The agendas make no steps any more.
  void stop();
  void end();

 private:
  struct Row {
    std::shared_ptr<Member> member;
    bool discovered = false;
  };

  void insert(DatabaseEntry entry, bool discovered);
  void start_leaving(const Row& row);

  const GroupContext& group_;
  mutable std::mutex mutex_;
  std::vector<Row> rows_;
  std::vector<std::shared_ptr<Member>> leaving_;
  RetiredPlatforms retired_;
  bool stopped_ = false;
  std::optional<GroupThreads> threads_;
  std::size_t next_place_ = 0;
};

}  // namespace dovetail::group
