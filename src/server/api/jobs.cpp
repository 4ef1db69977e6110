// Jobs and their runs.
#include "server/api/change.hpp"
#include "server/problem.hpp"

namespace dovetail::server::api {
namespace {

ordered_json job_json(const Job& job, const PayloadView& view) {
  auto value = json::to_json(job);
  view.apply(value, "payload");
  return value;
}

/// The schedule in words; null if the stored one is invalid.
ordered_json description_of(const Job& job) {
  try {
    return CronExpression::parse(job.cron).describe();
  } catch (const std::exception&) {
    return nullptr;
  }
}

/// The schedule in words, and its next times. A stored schedule may be invalid: Job::last_error
/// says why.
void add_schedule(ordered_json& value, const Job& job) {
  constexpr int most_next_runs = 5;
  value["description"] = nullptr;
  auto next_runs = ordered_json::array();
  try {
    const auto expression = CronExpression::parse(job.cron);
    const auto zone = TimeZone::find(job.time_zone);
    value["description"] = expression.describe();
    auto time = job.next_due_at;
    for (int i = 0; i < most_next_runs && time; ++i) {
      next_runs.push_back(to_string(*time));
      time = next_occurrence(expression, zone, *time);
    }
  } catch (const std::exception& error) {
    if (value["last_error"].is_null()) value["last_error"] = error.what();
  }
  value["next_runs"] = std::move(next_runs);
}

[[noreturn]] void no_such_job(const std::string& name) {
  throw Problem(404, "there is no job \"" + name + "\"");
}

Response list_jobs(const Api& api, const Request& request) {
  require_query(request, {});
  auto jobs = ordered_json::array();
  for (const auto& job : database_of(api, request)->jobs().list()) {
    auto value = job_json(job, {});
    value["description"] = description_of(job);
    jobs.push_back(std::move(value));
  }
  return answer({{"jobs", std::move(jobs)}});
}

Response show_job(const Api& api, const Request& request) {
  require_query(request, {"payload"});
  const auto view = payload_view(api, request);
  const auto& name = request.parameter("job");
  const auto found = database_of(api, request)->jobs().find(name);
  if (!found) no_such_job(name);
  auto value = job_json(*found, view);
  add_schedule(value, *found);
  return answer(std::move(value));
}

Response list_runs(const Api& api, const Request& request) {
  require_query(request, {"limit", "cursor"});
  const auto limit = limit_of(request);
  RunPage page{.size = limit + 1};
  if (const auto before = cursor_values(request, 1))
    page.before = parse_time("cursor", cursor_text(before->at(0)));
  auto list = database_of(api, request)->jobs().runs(request.parameter("job"), page);
  const bool more = drop_last(list, limit);
  return answer({{"runs", json::to_json_array(list)},
                 {"next", more ? ordered_json(cursor_of({to_string(list.back().scheduled_time)}))
                               : nullptr}});
}

Response trigger_job(Change& change) {
  const auto& name = change.request().parameter("job");
  change.describe(name);
  return change.make([&] {
    const auto run = change.platform().jobs().trigger(name);
    if (!run) no_such_job(name);
    return Changed{.answer = {{"run_id", run->to_string()}}, .count = 1, .status = 201};
  });
}

/// A change that returns false for an unknown job.
Response change_job(Change& change, const std::string& word,
                    const std::function<bool(Jobs& jobs, const std::string& name)>& call) {
  const auto& name = change.request().parameter("job");
  change.describe(name);
  return change.make([&] {
    if (!call(change.platform().jobs(), name)) no_such_job(name);
    return Changed{.answer = {{"job", name}, {word, true}}, .count = 1};
  });
}

}  // namespace

void add_job_routes(RouteTable& routes, const Api& api) {
  const std::string one = "/api/v1/jobs/{job}";
  add_read(routes, "/api/v1/jobs",
           [api](const Request& request) { return list_jobs(api, request); });
  add_read(routes, one, [api](const Request& request) { return show_job(api, request); });
  add_read(routes, one + "/runs",
           [api](const Request& request) { return list_runs(api, request); });
  add_change(routes, api,
             {.pattern = one + "/trigger", .action = "job.trigger", .handler = trigger_job});
  add_change(routes, api,
             {.pattern = one + "/enable", .action = "job.enable", .handler = [](Change& change) {
                return change_job(change, "enabled", [](Jobs& jobs, const std::string& name) {
                  return jobs.enable(name);
                });
              }});
  add_change(routes, api,
             {.pattern = one + "/disable", .action = "job.disable", .handler = [](Change& change) {
                return change_job(change, "disabled", [](Jobs& jobs, const std::string& name) {
                  return jobs.disable(name);
                });
              }});
  add_change(routes, api,
             {.method = "DELETE",
              .pattern = one,
              .role = ServerRole::admin,
              .action = "job.remove",
              .handler = [](Change& change) {
                return change_job(change, "removed", [](Jobs& jobs, const std::string& name) {
                  return jobs.remove(name);
                });
              }});
}

}  // namespace dovetail::server::api
