// Routes to brokers and sources from brokers.
#include <chrono>
#include <iostream>
#include <thread>

#include "cli/long_run.hpp"
#include "cli/tracing.hpp"
#include "config/given.hpp"
#include "config/transport_settings.hpp"
#include "json/to_json.hpp"

namespace dovetail::cli {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;

constexpr milliseconds probe_limit{5'000};

/// The flags of a route or a source, as texts.
struct TransportArguments {
  std::string url;
  std::vector<std::string> keys;  ///< KEY=VALUE
  transport::Settings given;      ///< The values that all kinds share.
  LongRunArguments long_run;

  void add_option(CLI::App& command, const std::string& flag, const char* key,
                  const std::string& description) {
    command.add_option_function<std::string>(
        flag, [this, key](const std::string& text) { given.values[key] = {text}; }, description);
  }
  void add_keys(CLI::App& command) {
    command.add_option(
        "--set", keys,
        "A setting of the broker's kind, as KEY=VALUE, a secret as KEY_file=PATH; may "
        "be repeated. `dovetail transports` lists them");
    long_run.add_to(command, "Seconds between two polls for messages");
  }
  /// Throws std::invalid_argument for a key that the kind does not have.
  [[nodiscard]] transport::Settings broker(const transport::Kind& kind,
                                           transport::Key::Place place) const {
    transport::Settings settings{.url = url};
    for (const auto& each : keys) {
      const auto equals = each.find('=');
      const auto key = each.substr(0, equals);
      if (equals == std::string::npos) throw std::invalid_argument("--set needs KEY=VALUE: " + key);
      const auto value = each.substr(equals + 1);
      const auto secret = key.ends_with(twin) ? key.substr(0, key.size() - twin.size()) : "";
      if (key_of(kind, key, place) != nullptr) {
        settings.values[key].push_back(value);
      } else if (const auto* found = key_of(kind, secret, place);
                 found != nullptr && found->secret) {
        settings.values[secret].push_back(secret_in(value));
      } else {
        throw std::invalid_argument("--set: " + kind.name + " has no setting " + key);
      }
    }
    return settings;
  }

 private:
  static constexpr std::string_view twin = "_file";

  static const transport::Key* key_of(const transport::Kind& kind, std::string_view name,
                                      transport::Key::Place place) {
    const auto* found = kind.find(name, place);
    return found != nullptr ? found : kind.find(name, transport::Key::Place::connection);
  }
  static std::string secret_in(const std::string& path) {
    std::vector<std::string> warnings;
    auto secret = config::read_secret(path, warnings);
    for (const auto& each : warnings) std::cerr << "dovetail: " << each << '\n';
    return secret;
  }
};

/// The arguments, or the part of the configuration without --to or --from.
config::TransportSettings routes_of(const Globals& globals, const TransportArguments& arguments) {
  if (arguments.url.empty()) return {.publish = globals.loaded.settings.transports.publish};
  const auto& kind = transport::kind_of(arguments.url);
  const auto broker = arguments.broker(kind, transport::Key::Place::publish);
  return {.publish = {config::publish_settings(kind, arguments.given, broker)}};
}

config::TransportSettings sources_of(const Globals& globals, const TransportArguments& arguments) {
  if (arguments.url.empty()) return {.consume = globals.loaded.settings.transports.consume};
  const auto& kind = transport::kind_of(arguments.url);
  const auto broker = arguments.broker(kind, transport::Key::Place::consume);
  return {.consume = {config::consume_settings(kind, arguments.given, broker)}};
}

void say_what_runs(const Platform& platform, const config::TransportSettings& settings) {
  for (const auto& each : settings.publish) {
    std::cerr << "dovetail: publishing " << each.topic << " of " << platform.name() << " to "
              << transport::without_secrets(each.broker.url) << '\n';
  }
  for (const auto& each : settings.consume) {
    std::cerr << "dovetail: consuming from " << transport::without_secrets(each.broker.url)
              << " as " << each.options.source << " into the inbox of " << platform.name() << '\n';
  }
}

void run_transports(const Globals& globals, const TransportArguments& arguments,
                    const config::TransportSettings& settings) {
  if (settings.empty()) {
    throw std::invalid_argument(
        "name the broker, or give a configuration file with [[publish]] or [[consume]]");
  }
  LongRun run(globals);
  auto options = globals.service_options();
  arguments.long_run.set_polls(options.worker);
  set_trace_sink(globals, options);
  auto platform = run.open(globals, std::move(options));
  config::add_transports(settings, platform);
  platform.start();
  if (!arguments.long_run.quiet) say_what_runs(platform, settings);
  static_cast<void>(run.wait(std::nullopt));
  if (!platform.stop()) throw std::runtime_error("a call of the broker did not end");
}

// --- dovetail transports

TransportInfo probed(const config::PublishSettings& route) {
  const auto& kind = transport::kind_of(route.broker.url);
  TransportInfo info{.direction = TransportInfo::Direction::publish,
                     .name = route.topic,
                     .kind = kind.name,
                     .address = transport::without_secrets(route.broker.url),
                     .state = TransportState::running};
  const auto publisher = kind.make_publisher(route.broker);
  try {
    publisher->probe({.deadline = std::chrono::steady_clock::now() + probe_limit});
    if (const auto reason = publisher->blocked()) {
      info.state = TransportState::blocked;
      info.reason = *reason;
    }
  } catch (const std::exception& error) {
    info.state = TransportState::unavailable;
    info.reason = error.what();
  }
  publisher->close();
  return info;
}

/// A source has no probe: its broker may deliver messages to a Consumer that only looks.
TransportInfo described(const config::ConsumeSettings& source) {
  return {.direction = TransportInfo::Direction::consume,
          .name = source.options.source,
          .kind = transport::kind_of(source.broker.url).name,
          .address = transport::without_secrets(source.broker.url)};
}

std::vector<TransportInfo> configured(const config::TransportSettings& settings) {
  std::vector<TransportInfo> all;
  for (const auto& each : settings.publish) all.push_back(probed(each));
  for (const auto& each : settings.consume) all.push_back(described(each));
  return all;
}

const char* place_name(transport::Key::Place place) {
  if (place == transport::Key::Place::publish) return "publish";
  return place == transport::Key::Place::consume ? "consume" : "transports";
}

ordered_json kinds_json() {
  auto kinds = ordered_json::array();
  for (const auto* kind : transport::kinds()) {
    auto keys = ordered_json::array();
    for (const auto& key : kind->keys) {
      keys.push_back({{"name", key.name},
                      {"section", place_name(key.place)},
                      {"description", key.description},
                      {"secret", key.secret}});
    }
    kinds.push_back({{"kind", kind->name},
                     {"schemes", kind->schemes},
                     {"description", kind->description},
                     {"publishes", static_cast<bool>(kind->make_publisher)},
                     {"consumes", static_cast<bool>(kind->make_consumer)},
                     {"keys", keys}});
  }
  return kinds;
}

void print_kinds() {
  std::vector<std::vector<std::string>> rows;
  for (const auto* kind : transport::kinds()) {
    std::string schemes;
    for (const auto& each : kind->schemes) schemes += (schemes.empty() ? "" : " ") + each + "://";
    rows.push_back({kind->name, schemes, kind->description});
  }
  if (rows.empty()) {
    std::cout << "this program was built without transports\n";
    return;
  }
  print_table({"KIND", "URL", "DESCRIPTION"}, rows);
}

void print_keys() {
  std::vector<std::vector<std::string>> rows;
  for (const auto* kind : transport::kinds()) {
    for (const auto& key : kind->keys) {
      rows.push_back({kind->name, place_name(key.place), key.name, key.description});
    }
  }
  if (rows.empty()) return;
  std::cout << '\n';
  print_table({"KIND", "SECTION", "KEY", "DESCRIPTION"}, rows);
}

void show_transports(const Globals& globals, const std::string& file) {
  const auto loaded = config::load({.file = file, .environment = config::process_environment()});
  const auto routes = configured(loaded.settings.transports);
  if (globals.json) {
    std::cout << ordered_json{{"kinds", kinds_json()}, {"transports", json::to_json_array(routes)}}
                     .dump(2)
              << '\n';
    return;
  }
  print_kinds();
  print_keys();
  if (routes.empty()) return;
  std::vector<std::vector<std::string>> rows;
  for (const auto& each : routes) {
    const bool known = each.direction == TransportInfo::Direction::publish;
    rows.push_back({std::string{to_string(each.direction)}, each.name, each.kind, each.address,
                    known ? std::string{to_string(each.state)} : "-",
                    shortened(each.reason, shown_error_characters)});
  }
  std::cout << '\n';
  print_table({"DIRECTION", "NAME", "KIND", "ADDRESS", "STATE", "REASON"}, rows);
}

}  // namespace

void add_publish(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<TransportArguments>();
  auto& command = add_command(app, globals, "publish",
                              "Publish messages of the outbox to a broker, until a signal",
                              [&globals, arguments] {
                                run_transports(globals, *arguments, routes_of(globals, *arguments));
                              });
  command.footer(
      "Without --to, the routes of [[publish]] in the configuration file run. Messages are done\n"
      "after the broker has confirmed them. While the broker is down, nothing is claimed.");
  command.add_option("--to", arguments->url, "The URL of the broker, such as nats://localhost");
  arguments->add_option(command, "--topic", "topic",
                        "The topic, or a pattern in which * matches any text: 'order.*'");
  arguments->add_option(command, "--window", "window",
                        "Messages on their way to the broker, at most");
  arguments->add_option(command, "--timeout", "timeout", "How long a confirmation is awaited: 30s");
  arguments->add_option(command, "--max-attempts", "max_attempts",
                        "Rejections after which a message becomes a dead letter");
  arguments->add_keys(command);
}

void add_consume(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<TransportArguments>();
  auto& command =
      add_command(app, globals, "consume",
                  "Store messages of a broker in the inbox, until a signal", [&globals, arguments] {
                    run_transports(globals, *arguments, sources_of(globals, *arguments));
                  });
  command.footer(
      "Without --from, the sources of [[consume]] in the configuration file run. Messages are\n"
      "acknowledged after they are stored. A message that cannot be read becomes a dead letter.");
  command.add_option("--from", arguments->url, "The URL of the broker, such as nats://localhost");
  arguments->add_option(command, "--source", "source",
                        "The source of the messages in the inbox; ids are unique within it");
  arguments->add_option(command, "--topic", "topic", "The topic of messages that carry none");
  arguments->add_option(command, "--prefetch", "prefetch",
                        "Messages that are fetched and not stored, at most");
  arguments->add_keys(command);
}

void add_transports(CLI::App& app, Globals& globals) {
  auto file = std::make_shared<std::string>();
  auto& command = *app.add_subcommand(
      "transports", "List the kinds of brokers, and probe the routes of a configuration file");
  command.callback([&globals, file] { show_transports(globals, *file); });
  command.footer("It needs no database. Brokers of routes are probed; nothing is published.");
  command.add_option("--config", *file, "The configuration file")->envname("DOVETAIL_CONFIG");
  command.add_flag("--json", globals.json, "Answer in JSON");
}

}  // namespace dovetail::cli
