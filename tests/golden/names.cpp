// The names of log events and metrics, which dashboards and alerts rely on. They are read from the
// sources: a scenario would not reach the failures.
#include <algorithm>
#include <map>
#include <regex>

#include "golden/golden_file.hpp"
#include "golden/source_scan.hpp"
#include "observe/metric_families.hpp"

namespace dovetail::testing {
namespace {

using Names = std::set<std::string>;

/// `{queue}` stands for outbox, inbox and timers.
constexpr const char* any_queue = "{queue}.";

/// Names of fields and labels: `{"store", …}`.
std::vector<std::string> fields_in(const std::string& text) {
  static const std::regex field(R"re(\{\s*"([a-z_]+)",)re");
  std::vector<std::string> fields;
  for (std::sregex_iterator each(text.begin(), text.end(), field), end; each != end; ++each) {
    fields.push_back(each->str(1));
  }
  return fields;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += " " + word;
  return text;
}

/// The names that an argument means: `event("acked")`, `queue + ".look"`, `"join.started"`.
Names names_in(const std::string& argument, bool is_suffix) {
  Names names;
  for (const auto& literal : literals_in(argument)) {
    if (literal.starts_with("dovetail_")) continue;  // a metric
    if (literal.starts_with(".")) {
      names.insert(any_queue + literal.substr(1));
    } else if (is_suffix || argument.find("event(") != std::string::npos) {
      names.insert(any_queue + literal);
    } else if (literal.find('.') != std::string::npos) {
      names.insert(literal);
    }
  }
  return names;
}

/// The suffixes in the body of a function, without the names of fields.
Names suffixes_in_body(const FoundCall& call) {
  const auto fields = fields_in(call.enclosing_body);
  Names names;
  for (const auto& literal : literals_in(call.enclosing_body)) {
    const bool is_metric = literal.starts_with("dovetail_");
    if (!is_metric && std::ranges::find(fields, literal) == fields.end())
      names.insert(any_queue + literal);
  }
  return names;
}

/// The names of a helper whose parameter is the name: the arguments of its callers, or the names in
/// their bodies. If no caller has a name, the names in the helper itself.
Names names_given_to(const FoundCall& inner, const std::string& argument,
                     const std::vector<FoundCall>& calls) {
  const bool is_suffix = argument.find("event(") != std::string::npos;
  Names names;
  for (const auto& call : calls) {
    if (call.function != inner.enclosing || call.enclosing.empty()) continue;
    Names given;
    for (const auto& each : call.arguments) given.merge(names_in(each, is_suffix));
    if (given.empty() && is_suffix) given = suffixes_in_body(call);
    names.merge(given);
  }
  return names.empty() && is_suffix ? suffixes_in_body(inner) : names;
}

Names names_of(const FoundCall& call, const std::string& argument,
               const std::vector<FoundCall>& calls) {
  auto names = names_in(argument, false);
  return names.empty() ? names_given_to(call, argument, calls) : names;
}

struct Found {
  Names lines{};
  Names names{};
};

/// Names of metrics are written in full: `"dovetail_enqueued_total"`.
Names metrics_in(const std::string& text) {
  Names names;
  for (const auto& literal : literals_in(text)) {
    if (literal.starts_with("dovetail_")) names.insert(literal);
  }
  return names;
}

/// The metrics of a call. If its argument is a parameter, those that the callers give.
Names metrics_of(const FoundCall& call, const std::vector<FoundCall>& calls) {
  auto names = metrics_in(call.arguments[0]);
  if (!names.empty()) return names;
  for (const auto& caller : calls) {
    if (caller.function != call.enclosing || caller.enclosing.empty()) continue;
    for (const auto& argument : caller.arguments) names.merge(metrics_in(argument));
  }
  // A helper that calls this one with its own parameter.
  for (const auto& caller : calls) {
    if (caller.function != call.enclosing || caller.enclosing == call.enclosing) continue;
    if (!caller.arguments.empty() && caller.arguments[0] == "metric")
      names.merge(metrics_of(caller, calls));
  }
  return names;
}

Found found_metrics() {
  static const std::map<std::string, std::string> kinds{
      {"count", "counter"}, {"time", "timing"}, {"gauge", "gauge"}};
  static const std::regex object(R"((.*\W)?metrics_?(\(\))?(\.|->))");
  Found found;
  const auto& calls = calls_in_library();
  for (const auto& call : calls) {
    const auto kind = kinds.find(call.function);
    if (kind == kinds.end() || call.arguments.size() < 3 || !std::regex_match(call.object, object))
      continue;
    for (const auto& name : metrics_of(call, calls)) {
      found.names.insert(name);
      found.lines.insert(name + " " + kind->second + joined(fields_in(call.arguments[2])));
    }
  }
  return found;
}

Found found_events() {
  static const std::regex object(R"((.*\W)?log_?(\(\))?\.)");
  Found found;
  const auto& calls = calls_in_library();
  for (const auto& call : calls) {
    if (call.function != "write" || call.arguments.size() < 3 ||
        !std::regex_match(call.object, object))
      continue;
    for (const auto& name : names_of(call, call.arguments[1], calls)) {
      found.names.insert(name);
      found.lines.insert(name + joined(fields_in(call.arguments[2])));
    }
  }
  return found;
}

std::string text_of(const Names& lines) {
  std::string text;
  for (const auto& line : lines) text += line + "\n";
  return text;
}

/// The names of a pattern that a section of a page lists, in backticks.
Names documented(const std::string& file, const std::string& section, const std::string& pattern) {
  const auto page = contents(source_dir / "docs" / file);
  const auto begin = page.find("\n## " + section + "\n");
  const auto text = page.substr(begin + 1, page.find("\n## ", begin + 1) - begin);
  const std::regex name("`(" + pattern + ")`");
  Names names;
  for (std::sregex_iterator each(text.begin(), text.end(), name), end; each != end; ++each) {
    names.insert(each->str(1));
  }
  return names;
}

/// The page lists the names of all queues under those of the outbox, and says so.
void expect_documented(const std::string& section, const Names& names) {
  Names expected;
  for (const auto& name : names) {
    expected.insert(std::regex_replace(name, std::regex("^\\{queue\\}"), "outbox"));
  }
  const auto listed = documented("operations.md", section, R"([a-z]+\.[a-z_]+)");
  std::string problems;
  for (const auto& name : expected) {
    if (!listed.contains(name)) problems += "missing: " + name + "\n";
  }
  for (const auto& name : listed) {
    const auto of_any = any_queue + name.substr(name.find('.') + 1);
    if (!expected.contains(name) && !names.contains(of_any)) {
      problems += "not in the sources: " + name + "\n";
    }
  }
  EXPECT_EQ(problems, "") << "of docs/operations.md, section " << section;
}

TEST(Golden, NamesAndLabelsOfMetrics) {
  expect_golden("metrics.txt", text_of(found_metrics().lines));
}

TEST(Golden, NamesAndFieldsOfLogEvents) {
  expect_golden("events.txt", text_of(found_events().lines));
}

/// Metrics of the page that no call in the sources writes: the registry counts them.
const Names of_the_registry{"dovetail_metrics_dropped_total", "dovetail_metrics_folded_total"};

Names all_metrics() {
  auto names = found_metrics().names;
  names.insert(of_the_registry.begin(), of_the_registry.end());
  return names;
}

TEST(Golden, ObservabilityListsExactlyTheMetrics) {
  EXPECT_EQ(text_of(documented("observability.md", "Metrics", "dovetail_[a-z_]+")),
            text_of(all_metrics()));
}

TEST(Golden, EveryMetricIsDescribed) {
  Names described;
  for (const auto& family : observe::metric_families()) described.insert(std::string{family.name});
  EXPECT_EQ(text_of(described), text_of(all_metrics()));
}

TEST(Golden, NamesOfMetricsFollowPrometheus) {
  for (const auto& line : found_metrics().lines) {
    const auto name = line.substr(0, line.find(' '));
    const auto kind =
        line.substr(name.size() + 1, line.find(' ', name.size() + 1) - name.size() - 1);
    EXPECT_EQ(kind == "counter", name.ends_with("_total")) << line;
    EXPECT_TRUE(kind != "timing" || name.ends_with("_seconds")) << line;
    const bool of_the_process =
        name.starts_with("dovetail_group_") || name == "dovetail_last_progress_timestamp_seconds" ||
        name == "dovetail_config_reload_success" || name == "dovetail_server_logins_total" ||
        name == "dovetail_server_webhooks_total" || name == "dovetail_trace_spans_total";
    EXPECT_TRUE(line.find(" store") != line.npos || of_the_process) << line;
  }
}

TEST(Golden, OperationsListsExactlyTheLogEvents) {
  expect_documented("Logs", found_events().names);
}

}  // namespace
}  // namespace dovetail::testing
