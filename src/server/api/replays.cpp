// Replays and purges of many dead letters, in the background.
#include <algorithm>
#include <limits>

#include "server/api/change.hpp"
#include "server/problem.hpp"

namespace dovetail::server::api {
namespace {

ordered_json text_or_null(const std::optional<std::string>& text) {
  return text ? ordered_json(*text) : ordered_json();
}

ordered_json time_or_null(const std::optional<WallTime>& time) {
  return time ? ordered_json(to_string(*time)) : ordered_json();
}

ordered_json filter_json(const ReplayRequest& request) {
  return {{"topic", text_or_null(request.filter.topic)},
          {"failed_after", time_or_null(request.filter.failed_after)},
          {"failed_before", time_or_null(request.filter.failed_before)},
          {"error", text_or_null(request.error)}};
}

ordered_json replay_json(const Replay& replay) {
  const auto& request = replay.request;
  return {{"replay_id", replay.id.to_string()},
          {"kind", std::string{to_string(request.kind)}},
          {"state", std::string{to_string(replay.state)}},
          {"queue", request.queue},
          {"filter", filter_json(request)},
          {"limit", request.limit ? ordered_json(std::to_string(*request.limit)) : nullptr},
          {"rate", request.rate ? ordered_json(*request.rate) : nullptr},
          {"actor", request.actor},
          {"examined", replay.examined},
          {"changed", replay.changed},
          {"started_at", to_string(replay.started_at)},
          {"updated_at", to_string(replay.updated_at)},
          {"finished_at", time_or_null(replay.finished_at)},
          {"failure", replay.failure.empty() ? ordered_json() : ordered_json(replay.failure)}};
}

ReplayRequest replay_request(Change& change, ReplayKind kind) {
  auto& body = change.body();
  ReplayRequest request{.kind = kind, .queue = body.text("queue").value_or("outbox")};
  if (auto filter = body.object("filter")) {
    request.filter = {.topic = filter->text("topic"),
                      .failed_after = filter->time("failed_after"),
                      .failed_before = filter->time("failed_before")};
    request.error = filter->text("error");
    filter->finish();
  }
  request.limit = body.number("limit");
  if (const auto rate = body.number("rate")) {
    constexpr auto highest = std::numeric_limits<int>::max();
    request.rate = static_cast<int>(std::clamp<std::int64_t>(*rate, -highest, highest));
  }
  return request;
}

Response start_replay(Change& change, ReplayKind kind) {
  auto request = replay_request(change, kind);
  const bool dry_run = change.body().flag("dry_run");
  (void)queue_of(change.platform(), request.queue);  // 404 for an unknown queue
  auto detail = filter_json(request);
  if (request.limit) detail["limit"] = std::to_string(*request.limit);
  if (request.rate) detail["rate"] = *request.rate;
  detail["dry_run"] = dry_run;
  change.describe(request.queue, detail);
  auto& replays = change.platform().replays();
  if (dry_run) {
    const auto preview = replays.preview(request);
    auto ids = ordered_json::array();
    for (const auto& id : preview.first) ids.push_back(id.to_string());
    return answer({{"would_change", preview.count},
                   {"capped", preview.cut},
                   {"message_ids", std::move(ids)}});
  }
  request.actor = change.actor();
  return change.make([&] {
    const auto replay = replays.start(request);
    detail["replay_id"] = replay.id.to_string();
    change.describe(request.queue, detail);
    return Changed{.answer = replay_json(replay), .status = 202};
  });
}

Response list_replays(const Api& api, const Request& request) {
  require_query(request, {"limit", "cursor"});
  const auto limit = limit_of(request);
  ReplayPage page{.size = limit + 1};
  if (const auto before = cursor_values(request, 1))
    page.before = cursor_id<ReplayId>(before->at(0));
  auto list = database_of(api, request)->replays().list(page);
  const bool more = drop_last(list, limit);
  auto replays = ordered_json::array();
  for (const auto& each : list) replays.push_back(replay_json(each));
  return answer({{"replays", std::move(replays)},
                 {"next", more ? ordered_json(cursor_of({list.back().id.to_string()})) : nullptr}});
}

Response show_replay(const Api& api, const Request& request) {
  require_query(request, {});
  const auto id = parse_id<ReplayId>("replay_id", request.parameter("replay_id"));
  const auto found = database_of(api, request)->replays().find(id);
  if (!found) throw Problem(404, "there is no replay " + id.to_string());
  return answer(replay_json(*found));
}

Response cancel_replay(Change& change) {
  const auto id = parse_id<ReplayId>("replay_id", change.request().parameter("replay_id"));
  auto& replays = change.platform().replays();
  change.describe(id.to_string());
  return change.make([&] {
    const bool cancelled = replays.cancel(id);
    const auto found = replays.find(id);
    if (!found) throw Problem(404, "there is no replay " + id.to_string());
    auto value = replay_json(*found);
    value["cancelled"] = cancelled;
    return Changed{.answer = std::move(value), .count = cancelled ? 1 : 0};
  });
}

}  // namespace

void add_replay_routes(RouteTable& routes, const Api& api) {
  const std::string all = "/api/v1/dead-letters/replays";
  add_read(routes, all, [api](const Request& request) { return list_replays(api, request); });
  add_read(routes, all + "/{replay_id}",
           [api](const Request& request) { return show_replay(api, request); });
  add_change(routes, api,
             {.pattern = all, .action = "dead_letters.start_replay", .handler = [](Change& change) {
                return start_replay(change, ReplayKind::replay);
              }});
  add_change(routes, api,
             {.pattern = "/api/v1/dead-letters/purges",
              .role = ServerRole::admin,
              .action = "dead_letters.start_purge",
              .handler = [](Change& change) { return start_replay(change, ReplayKind::purge); }});
  add_change(routes, api,
             {.pattern = all + "/{replay_id}/cancel",
              .action = "replay.cancel",
              .handler = cancel_replay});
}

}  // namespace dovetail::server::api
