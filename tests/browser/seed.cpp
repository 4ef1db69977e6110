// Fills a database with data of every component, for the tests of the dashboard.
//
//   dovetail_browser_seed DATABASE
//
// The data contains what pages must bear: long names, names from right to left, and markup.
#include <chrono>
#include <cmath>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "dovetail/dovetail.hpp"

namespace {

using namespace std::chrono_literals;
using dovetail::HandlerContext;
using dovetail::Message;
using dovetail::PermanentFailure;
using dovetail::Platform;

const std::string right_to_left = "طلب.جديد";
const std::string markup = "<img src=x onerror=alert(1)>";
const std::string long_topic =
    "warehouse." + std::string(235, 'x') + ".end";  // almost the longest possible

std::string long_error() {
  std::string text = "the warehouse refused the order: HTTP 502\n";
  for (int i = 0; i < 12; ++i) {
    text += "  at Warehouse::reserve(order_id=" + std::to_string(4711 + i) +
            ", retries=3) in warehouse_client.cpp:" + std::to_string(100 + i) + "\n";
  }
  return text;
}

void add_handlers(Platform& platform) {
  const dovetail::HandlerOptions twice{.max_attempts = 2, .backoff = [](int) { return 5ms; }};
  platform.on("mail.send",
              [](const Message&, HandlerContext&) { std::this_thread::sleep_for(1ms); });
  platform.on("payment.book", [](const Message& message, HandlerContext&) {
    if (message.payload.find("declined") != std::string::npos)
      throw PermanentFailure("the card was declined");
  });
  platform.on(
      "report.render",
      [](const Message& message, HandlerContext&) {
        throw std::runtime_error(message.attempts == 0 ? "no renderer answered" : long_error());
      },
      twice);
  platform.on(long_topic, [](const Message&, HandlerContext&) {
    throw PermanentFailure("no warehouse of this name");
  });
  platform.on(right_to_left, [](const Message&, HandlerContext&) {
    throw PermanentFailure("تعذر العثور على العميل");
  });
  platform.on(markup, [](const Message&, HandlerContext&) { throw PermanentFailure(markup); });
  platform.on("etl.extract", [](const Message& message, HandlerContext&) {
    if (message.payload == "products") throw PermanentFailure("the table products is locked");
  });
  for (const auto* topic : {"etl.transform", "etl.failed", "parcel.pack", "cleanup.run"})
    platform.on(topic, [](const Message&, HandlerContext&) {});
  platform.on("order.changed", [](const Message& message, HandlerContext&) {
    if (message.stream == "order-42") throw PermanentFailure("the order is frozen");
  });
  platform.on("backup.run",
              [](const Message&, HandlerContext&) { throw PermanentFailure("the disk is full"); });
  platform.on_inbox("payment.received", [](const dovetail::InboxMessage& message, auto&) {
    if (message.payload == "bad") throw PermanentFailure("not a payment");
  });
}

void add_messages(Platform& platform) {
  auto& outbox = platform.outbox();
  for (int i = 0; i < 60; ++i) {
    outbox.enqueue({.topic = "mail.send",
                    .payload = R"({"to":"ada@example.com","password":"hunter2","n":)" +
                               std::to_string(i) + "}",
                    .correlation_id = "customer-" + std::to_string(i % 5),
                    .headers = {{"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-01"},
                                {"tenant", "acme"}}});
  }
  for (int i = 0; i < 24; ++i)
    outbox.enqueue({.topic = "payment.book", .payload = R"({"card":"declined"})"});
  for (int i = 0; i < 5; ++i) outbox.enqueue({.topic = "report.render", .payload = "monthly"});
  for (const auto& topic : {long_topic, right_to_left, markup})
    outbox.enqueue({.topic = topic, .payload = "{}"});
  for (int i = 0; i < 8; ++i)
    outbox.enqueue({.topic = "digest.send", .delay = std::chrono::hours{1 + i}});
  outbox.enqueue({.topic = "nobody.listens", .payload = "waits for a handler"});
  outbox.pause("invoice.print");
  for (int i = 0; i < 3; ++i) outbox.enqueue({.topic = "invoice.print"});
  for (const auto* stream : {"order-42", "order-43"}) {
    for (int i = 0; i < 3; ++i)
      outbox.enqueue({.topic = "order.changed", .stream = std::string{stream}});
  }
  outbox.enqueue({.topic = "order.later", .delay = 5h, .stream = "order-44"});
  int number = 0;
  for (const auto* payload : {"good", "bad", "good"}) {
    platform.inbox().enqueue({.topic = "payment.received",
                              .source = "payments",
                              .message_id = "p-" + std::to_string(++number),
                              .payload = payload});
  }
}

void add_joins(Platform& platform) {
  const dovetail::Continuation after{.on_complete_topic = "etl.transform",
                                     .on_fail_topic = "etl.failed"};
  const auto step = [](const std::string& payload) {
    return dovetail::EnqueueRequest{.topic = "etl.extract", .payload = payload};
  };
  platform.joins().fan_out({.grouping_key = "customer-7",
                            .metadata = R"({"tenant":"acme"})",
                            .steps = {step("orders"), step("products"), step("prices")},
                            .wait = after});
  platform.joins().fan_out(
      {.grouping_key = "customer-8", .steps = {step("orders"), step("prices")}, .wait = after});
  platform.joins().fan_out({.grouping_key = "customer-9",
                            .deadline = dovetail::system_clock()->wall() + std::chrono::hours{24},
                            .steps = {step("orders"), {.topic = "etl.approve", .delay = 24h}},
                            .wait = after});
  dovetail::FanOut large{.grouping_key = "parcels of order 4711"};
  for (int i = 0; i < 40; ++i) large.steps.push_back({.topic = "parcel.pack"});
  large.steps.push_back({.topic = "etl.extract", .payload = "products"});
  platform.joins().fan_out(large);
}

void add_schedule(Platform& platform) {
  for (int i = 0; i < 4; ++i) {
    platform.timers().schedule({.topic = "reminder.send",
                                .payload = R"({"order":4711})",
                                .delay = std::chrono::minutes{90 * (i + 1)}});
  }
  auto& jobs = platform.jobs();
  jobs.create_or_update({.name = "nightly-cleanup",
                         .topic = "cleanup.run",
                         .cron = "0 2 * * *",
                         .payload = R"({"older_than":"30 days"})",
                         .time_zone = "Europe/Berlin"});
  jobs.create_or_update({.name = "backup", .topic = "backup.run", .cron = "0 */6 * * *"});
  jobs.create_or_update({.name = "weekly-report", .topic = "cleanup.run", .cron = "0 9 * * MON"});
  jobs.disable("weekly-report");
  for (int i = 0; i < 6; ++i) jobs.trigger("nightly-cleanup");
  for (int i = 0; i < 3; ++i) jobs.trigger("backup");
  platform.fanout().add({.topic = "etl.tenant", .work_key = "payments", .cron = "*/10 * * * *"},
                        [](const dovetail::FanoutPlan&) -> dovetail::FanoutCandidates {
                          return std::vector<dovetail::FanoutCandidate>{{.shard_key = "acme"},
                                                                        {.shard_key = "globex"}};
                        });
  platform.fanout().on("etl.tenant", "payments", [](const auto&, auto&) {});
}

void add_events(Platform& platform) {
  auto& events = platform.events();
  for (int order = 1; order <= 3; ++order) {
    const auto stream = "order-" + std::to_string(order);
    events.append(stream, dovetail::ExpectedVersion::any(),
                  {{.type = "OrderPlaced", .data = R"({"items":3,"total":"41.90"})"},
                   {.type = "OrderPaid", .data = R"({"card":{"token":"tok_1"},"total":"41.90"})"},
                   {.type = "OrderShipped", .data = R"({"parcels":[1,2]})"}});
  }
  events.subscribe("invoices", {.types = {"OrderPaid"}}, [](auto, auto&) {});
  events.subscribe("warehouse",
                   {.on_failure = dovetail::SubscriptionFailure::park_stream,
                    .max_attempts = 1,
                    .backoff = [](int) { return 5ms; }},
                   [](auto batch, auto&) {
                     for (const auto& event : batch) {
                       if (event.stream == "order-2") throw std::runtime_error("no such shelf");
                     }
                   });
}

/// An hour of work of a small shop, in buckets of a minute.
void add_history(Platform& platform, bool is_postgres) {
  const auto table = is_postgres ? std::string{"infra.rollup"} : std::string{"infra_rollup"};
  const auto now = std::chrono::floor<std::chrono::minutes>(dovetail::system_clock()->wall());
  auto tx = platform.begin();
  for (int i = 0; i <= 180; ++i) {
    const auto wave = 300 + static_cast<int>(120 * std::sin(i / 9.0)) + (i * 7919) % 60;
    const bool bad = i > 20 && i < 32;
    tx.execute("insert into " + table +
                   " (step, bucket, queue, topic, enqueued, done, retried, failed, calls, "
                   "handler_time, handler_time_max) values (60, $1, 'outbox', $2, $3, $4, $5, $6, "
                   "$7, $8, $9)",
               dovetail::WallTime{now - std::chrono::minutes{i}}, "mail.send", wave,
               bad ? wave * 6 / 10 : wave, bad ? 40 : i % 4, bad ? 6 : 0, wave,
               std::int64_t{wave} * (bad ? 46'000 : 18'000),
               bad ? 920'000 : 140'000 + i % 9 * 9000);
    tx.execute("insert into " + table +
                   " (step, bucket, queue, topic, enqueued, done, retried, failed, calls, "
                   "handler_time, handler_time_max) values (60, $1, 'outbox', 'payment.book', $2, "
                   "$2, 0, 0, $2, $3, 60000)",
               dovetail::WallTime{now - std::chrono::minutes{i}}, wave / 3,
               std::int64_t{wave} * 4'000);
    tx.execute("insert into " + (is_postgres ? std::string{"infra.backlog"} : "infra_backlog") +
                   " (step, bucket, queue, ready, in_progress) values (60, $1, 'outbox', $2, $3) "
                   "on conflict do nothing",
               dovetail::WallTime{now - std::chrono::minutes{i}},
               bad ? (32 - i) * 60 : 10 + i % 5 * 3, bad ? 20 : 4 + i % 3);
  }
  tx.commit();
}

/// Whether all of the work that can be done is done.
bool is_settled(Platform& platform) {
  const auto counts = platform.outbox().counts();
  return counts.ready <= 8 && counts.in_progress == 0 && counts.failed >= 30 &&
         platform.events().subscriptions().list().size() == 2;
}

int fill(const std::string& url) {
  auto platform = Platform::open(url, {.deploy_schema = true,
                                       .worker = {.poll_interval = 50ms},
                                       .log_sink = dovetail::null_log_sink()});
  add_handlers(platform);
  add_schedule(platform);
  add_events(platform);
  platform.start();
  add_messages(platform);
  add_joins(platform);
  platform.fanout().run_now("etl.tenant", "payments");
  add_history(platform, url.starts_with("postgres"));
  if (!platform.leases().try_acquire("nightly-report", "host-7:4711", std::chrono::hours{2}))
    return 1;
  for (int i = 0; i < 100 && !is_settled(platform); ++i) std::this_thread::sleep_for(100ms);
  std::this_thread::sleep_for(500ms);
  platform.audit().record({.actor = "ada", .action = "dead_letters.replay", .target = "outbox"});
  platform.stop();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: dovetail_browser_seed DATABASE\n";
    return 2;
  }
  try {
    return fill(argv[1]);
  } catch (const std::exception& error) {
    std::cerr << "dovetail_browser_seed: " << error.what() << "\n";
    return 1;
  }
}
