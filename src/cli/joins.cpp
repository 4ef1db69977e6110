#include <iostream>
#include <map>

#include "cli/group_list.hpp"
#include "json/to_json.hpp"

namespace dovetail::cli {
namespace {

using json::to_json;
using json::to_json_array;
using nlohmann::ordered_json;

constexpr std::size_t shown_key_characters = 40;
constexpr int members_page = 1'000;

std::string steps(const Join& join) {
  auto text = std::to_string(join.completed_steps) + "/" + std::to_string(join.expected_steps);
  if (join.failed_steps > 0) text += ", " + std::to_string(join.failed_steps) + " failed";
  return text;
}

// --- list

struct ListArguments {
  std::string group;
  std::string status;
  std::string after;
  std::string before;
  std::string start_after;
  int limit = 100;
};

const std::map<std::string, JoinStatus>& statuses() {
  static const std::map<std::string, JoinStatus> all{{"pending", JoinStatus::pending},
                                                     {"completed", JoinStatus::completed},
                                                     {"failed", JoinStatus::failed},
                                                     {"cancelled", JoinStatus::cancelled}};
  return all;
}

using ListedJoins = std::vector<Join>;

std::vector<TableCells> join_rows(const ListedJoins& joins) {
  std::vector<TableCells> rows;
  rows.reserve(joins.size());
  for (const auto& join : joins) {
    rows.push_back({join.id.to_string(), std::string{to_string(join.status)}, steps(join),
                    shortened(join.grouping_key.value_or("-"), shown_key_characters),
                    to_string(join.created_at), or_dash(join.finished_at)});
  }
  return rows;
}

void list_joins(const Globals& globals, const ListArguments& arguments) {
  JoinFilter filter{.created_after = parse_time_if_given("--after", arguments.after),
                    .created_before = parse_time_if_given("--before", arguments.before)};
  if (!arguments.group.empty()) filter.grouping_key = arguments.group;
  if (!arguments.status.empty()) filter.status = statuses().at(arguments.status);
  JoinPage page{.size = arguments.limit};
  if (!arguments.start_after.empty())
    page.after = parse_id<JoinId>("--start-after", arguments.start_after);
  require_one_database(globals, page.after.has_value());
  const auto is_full = [&](const ListedJoins& joins) {
    return joins.size() >= static_cast<std::size_t>(page.size);
  };
  const auto form = [&](const ListedJoins& joins) {
    ordered_json answer{{"joins", to_json_array(joins)}, {"next_start_after", nullptr}};
    if (is_full(joins)) answer["next_start_after"] = joins.back().id.to_string();
    return answer;
  };
  const auto joins = print_list<ListedJoins>(
      globals, [&](Platform& platform) { return platform.joins().list(filter, page); },
      {{"JOIN", "STATUS", "STEPS", "GROUP", "CREATED AT", "ENDED AT"},
       join_rows,
       form,
       "no joins"});
  if (joins && !globals.json && is_full(*joins))
    std::cerr << "there may be more: --start-after " << joins->back().id.to_string() << '\n';
}

// --- show

std::vector<JoinMember> all_members(Joins& joins, JoinId id) {
  std::vector<JoinMember> members;
  for (;;) {
    MemberPage page{.size = members_page};
    if (!members.empty()) page.after = members.back().message;
    const auto some = joins.members(id, page);
    members.insert(members.end(), some.begin(), some.end());
    if (some.size() < static_cast<std::size_t>(page.size)) return members;
  }
}

void print_join(const Join& join, const std::vector<JoinMember>& members) {
  print_table({"FIELD", "VALUE"}, {{"join_id", join.id.to_string()},
                                   {"status", std::string{to_string(join.status)}},
                                   {"grouping_key", join.grouping_key.value_or("-")},
                                   {"expected_steps", std::to_string(join.expected_steps)},
                                   {"completed_steps", std::to_string(join.completed_steps)},
                                   {"failed_steps", std::to_string(join.failed_steps)},
                                   {"attached", std::to_string(members.size())},
                                   {"created_at", to_string(join.created_at)},
                                   {"last_updated_at", to_string(join.last_updated_at)},
                                   {"finished_at", or_dash(join.finished_at)},
                                   {"deadline", or_dash(join.deadline)},
                                   {"reason", join.reason.value_or("-")},
                                   {"metadata", join.metadata.value_or("-")}});
  if (members.empty()) return;
  std::cout << '\n';
  std::vector<std::vector<std::string>> rows;
  rows.reserve(members.size());
  for (const auto& member : members) {
    rows.push_back({member.message.to_string(), std::string{to_string(member.status)},
                    to_string(member.created_at)});
  }
  print_table({"MESSAGE", "STEP", "ATTACHED AT"}, rows);
}

void show_join(const Globals& globals, const std::string& text) {
  const auto id = parse_id<JoinId>("ID", text);
  auto platform = globals.open();
  const auto join = platform.joins().find(id);
  if (!join) throw std::runtime_error("there is no join " + id.to_string());
  const auto members = all_members(platform.joins(), id);
  if (!globals.json) return print_join(*join, members);
  auto answer = to_json(*join);
  answer["members"] = to_json_array(members);
  std::cout << answer.dump(2) << '\n';
}

// --- cancel and purge

void cancel_joins(const Globals& globals, const std::vector<std::string>& texts) {
  std::vector<JoinId> ids;
  ids.reserve(texts.size());
  for (const auto& text : texts) ids.push_back(parse_id<JoinId>("ID", text));
  auto platform = globals.open();
  std::size_t count = 0;
  for (const auto& id : ids) {
    if (!platform.joins().find(id)) throw std::runtime_error("there is no join " + id.to_string());
    count += platform.joins().cancel(id) ? 1 : 0;
  }
  print_effect(globals, {.word = "cancelled",
                         .count = count,
                         .asked = ids.size(),
                         .why_not = "a join that has ended cannot be cancelled"});
}

void purge_joins(const Globals& globals, double age) {
  const auto seconds =
      std::chrono::ceil<std::chrono::seconds>(parse_seconds("--older-than", age, age_range));
  auto platform = globals.open();
  print_effect(globals, {.word = "purged", .count = platform.joins().purge(seconds)});
}

void add_joins_list(CLI::App& group, Globals& globals) {
  auto arguments = std::make_shared<ListArguments>();
  auto& command = add_command(group, globals, "list", "List joins by id, oldest first",
                              [&globals, arguments] { list_joins(globals, *arguments); });
  allow_group(command, globals);
  std::vector<std::string> words;
  for (const auto& [word, status] : statuses()) words.push_back(word);
  command.add_option("--grouping-key", arguments->group, "Only joins with this grouping key");
  command.add_option("--status", arguments->status, "pending, completed, failed or cancelled")
      ->check(CLI::IsMember(words));
  command.add_option("--after", arguments->after, "Only joins created at or after this time")
      ->check(time_rule());
  command.add_option("--before", arguments->before, "Only joins created before this time")
      ->check(time_rule());
  command.add_option("--limit", arguments->limit, "Maximum number of rows")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  command.add_option("--start-after", arguments->start_after, "The last id of the previous page");
  command.add_flag("--json", globals.json, "Answer in JSON");
}

}  // namespace

void add_joins(CLI::App& app, Globals& globals) {
  auto& group = add_group(app, globals, "joins", "List, show, cancel and purge joins");
  add_joins_list(group, globals);

  auto id = std::make_shared<std::string>();
  auto& showing = add_command(group, globals, "show", "Show one join with its members",
                              [&globals, id] { show_join(globals, *id); });
  showing.add_option("ID", *id, "The join's UUID")->required();
  showing.add_flag("--json", globals.json, "Answer in JSON");

  auto ids = std::make_shared<std::vector<std::string>>();
  auto& cancelling =
      add_command(group, globals, "cancel", "End pending joins without a continuation",
                  [&globals, ids] { cancel_joins(globals, *ids); });
  cancelling.add_option("ID", *ids, "The joins' UUIDs")->required();
  cancelling.add_flag("--json", globals.json, "Answer in JSON");

  auto age = std::make_shared<double>(0);
  auto& purging =
      add_command(group, globals, "purge", "Delete joins that have ended, with their members",
                  [&globals, age] { purge_joins(globals, *age); });
  purging.add_option("--older-than", *age, "Minimum age in seconds, since they ended")->required();
  purging.add_flag("--json", globals.json, "Answer in JSON");
}

}  // namespace dovetail::cli
