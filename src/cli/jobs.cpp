#include <iostream>
#include <map>

#include "cli/group_list.hpp"
#include "json/to_json.hpp"

namespace dovetail::cli {
namespace {

using json::to_json;
using json::to_json_array;
using nlohmann::ordered_json;

constexpr SecondsRange jitter_range{std::chrono::milliseconds{0}, std::chrono::hours{1}};

struct JobArguments {
  JobRequest request;
  std::string misfire = "coalesce";
  double jitter = 0;
  bool disabled = false;
  std::string name;
  std::string before;
  int limit = 20;
};

const std::map<std::string, Misfire>& misfires() {
  static const std::map<std::string, Misfire> all{
      {"coalesce", Misfire::coalesce}, {"all", Misfire::all}, {"skip", Misfire::skip}};
  return all;
}

void create(const Globals& globals, const JobArguments& arguments) {
  auto request = arguments.request;
  request.misfire = misfires().at(arguments.misfire);
  request.jitter = parse_seconds("--jitter", arguments.jitter, jitter_range);
  if (arguments.disabled) request.enabled = false;
  auto platform = globals.open();
  platform.jobs().create_or_update(request);
  const auto job = platform.jobs().find(request.name);
  if (globals.json) {
    std::cout << (job ? to_json(*job) : ordered_json()).dump(2) << '\n';
    return;
  }
  std::cout << CronExpression::parse(request.cron).describe() << " (" << request.time_zone
            << "), next " << or_dash(job ? job->next_due_at : std::nullopt) << '\n';
}

using ListedJobs = std::vector<Job>;

const TableCells job_headings{"JOB", "TOPIC", "CRON", "TIME ZONE", "NEXT", "LAST RUN", "STATUS"};

std::vector<TableCells> job_rows(const ListedJobs& jobs) {
  std::vector<TableCells> rows;
  rows.reserve(jobs.size());
  for (const auto& job : jobs) {
    rows.push_back({job.name, job.topic, job.cron, job.time_zone,
                    job.enabled ? or_dash(job.next_due_at) : "disabled", or_dash(job.last_run_at),
                    job.last_run_status ? std::string{to_string(*job.last_run_status)} : "-"});
  }
  return rows;
}

ordered_json jobs_json(const ListedJobs& jobs) {
  return {{"jobs", to_json_array(jobs)}};
}

void list_jobs(const Globals& globals) {
  const auto ask = [](Platform& platform) { return platform.jobs().list(); };
  print_list<ListedJobs>(globals, ask, {job_headings, job_rows, jobs_json, "no jobs"});
}

[[noreturn]] void no_such_job(const std::string& name) {
  throw std::runtime_error("there is no job " + name + "; dovetail jobs list shows all");
}

void runs(const Globals& globals, const JobArguments& arguments) {
  const RunPage page{.before = parse_time_if_given("--before", arguments.before),
                     .size = arguments.limit};
  auto platform = globals.open();
  const auto found = platform.jobs().runs(arguments.name, page);
  if (found.empty() && !platform.jobs().find(arguments.name)) no_such_job(arguments.name);
  if (globals.json) {
    std::cout << ordered_json{{"runs", to_json_array(found)}}.dump(2) << '\n';
    return;
  }
  if (found.empty()) {
    std::cout << "no runs\n";
    return;
  }
  std::vector<std::vector<std::string>> rows;
  rows.reserve(found.size());
  for (const auto& run : found) {
    rows.push_back({run.id.to_string(), to_string(run.scheduled_time),
                    std::string{to_string(run.status)}, run.triggered ? "triggered" : "schedule",
                    or_dash(run.started_at), or_dash(run.ended_at),
                    shortened(run.last_error.value_or("-"), shown_error_characters)});
  }
  print_table({"RUN", "SCHEDULED", "STATUS", "BY", "STARTED", "ENDED", "ERROR"}, rows);
}

void trigger(const Globals& globals, const JobArguments& arguments) {
  auto platform = globals.open();
  const auto run = platform.jobs().trigger(arguments.name);
  if (!run) no_such_job(arguments.name);
  if (globals.json) {
    std::cout << ordered_json{{"run_id", run->to_string()}}.dump() << '\n';
  } else {
    std::cout << run->to_string() << '\n';
  }
}

void add_named(CLI::App& group, Globals& globals, const std::string& name,
               const std::string& description, const std::string& word,
               bool (Jobs::*change)(std::string_view)) {
  auto arguments = std::make_shared<JobArguments>();
  auto& command =
      add_command(group, globals, name, description, [&globals, arguments, word, change] {
        auto platform = globals.open();
        if (!(platform.jobs().*change)(arguments->name)) no_such_job(arguments->name);
        print_effect(globals, {.word = word, .count = 1});
      });
  command.add_option("NAME", arguments->name, "The job's name")->required();
  command.add_flag("--json", globals.json, "Answer in JSON");
}

void add_create(CLI::App& group, Globals& globals) {
  auto arguments = std::make_shared<JobArguments>();
  auto& request = arguments->request;
  auto& command =
      add_command(group, globals, "create", "Create a job, or change the one of this name",
                  [&globals, arguments] { create(globals, *arguments); });
  std::vector<std::string> words;
  for (const auto& [word, misfire] : misfires()) words.push_back(word);
  command.add_option("NAME", request.name, "The job's name: up to 100 characters")->required();
  command.add_option("TOPIC", request.topic, "The topic of its messages")
      ->required()
      ->check(topic_rule());
  command
      .add_option("CRON", request.cron,
                  "Five fields, six with seconds first, or a word such as @daily")
      ->required();
  command.add_option("PAYLOAD", request.payload, "The payload of its messages; empty if absent");
  command.add_option("--zone", request.time_zone, "An IANA time zone")->capture_default_str();
  command
      .add_option("--misfire", arguments->misfire,
                  "Policy for times that no scheduler saw: coalesce, all or skip")
      ->check(CLI::IsMember(words))
      ->capture_default_str();
  command
      .add_option("--misfire-limit", request.misfire_limit,
                  "Maximum number of missed times, with --misfire all")
      ->capture_default_str();
  command
      .add_option("--max-concurrent-runs", request.max_concurrent_runs,
                  "Maximum number of runs at the same time; 0: no limit")
      ->capture_default_str();
  command
      .add_option("--jitter", arguments->jitter,
                  "Delay each run by a random time of up to this many seconds")
      ->capture_default_str();
  command.add_flag("--disabled", arguments->disabled, "Create the job disabled");
  command.add_option("--formerly", request.formerly,
                     "The job's former name: rename that job if it exists");
  command.add_flag("--json", globals.json, "Answer in JSON");
}

}  // namespace

void add_jobs(CLI::App& app, Globals& globals) {
  auto& group = add_group(app, globals, "jobs", "Messages that recur by a cron expression");
  auto& listing = add_command(group, globals, "list", "List all jobs by name",
                              [&globals] { list_jobs(globals); });
  listing.add_flag("--json", globals.json, "Answer in JSON");
  allow_group(listing, globals);
  add_create(group, globals);
  auto triggered = std::make_shared<JobArguments>();
  auto& triggering = add_command(group, globals, "trigger",
                                 "Run a job now, in addition to its schedule; prints the run's id",
                                 [&globals, triggered] { trigger(globals, *triggered); });
  triggering.add_option("NAME", triggered->name, "The job's name")->required();
  triggering.add_flag("--json", globals.json, "Answer in JSON");
  add_named(group, globals, "enable", "Enable a job: it runs by its schedule from now on",
            "enabled", &Jobs::enable);
  add_named(group, globals, "disable", "Disable a job: it does not run by its schedule", "disabled",
            &Jobs::disable);
  add_named(group, globals, "remove", "Remove a job and its runs that have not started", "removed",
            &Jobs::remove);
  auto listed = std::make_shared<JobArguments>();
  auto& running = add_command(group, globals, "runs", "List the runs of a job, the latest first",
                              [&globals, listed] { runs(globals, *listed); });
  running.add_option("NAME", listed->name, "The job's name")->required();
  running.add_option("--before", listed->before, "Only runs scheduled before this time")
      ->check(time_rule());
  running.add_option("--limit", listed->limit, "Maximum number of rows")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  running.add_flag("--json", globals.json, "Answer in JSON");
}

}  // namespace dovetail::cli
