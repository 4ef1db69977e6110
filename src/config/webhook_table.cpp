// Signed webhooks that the server receives: [webhooks.NAME].
#include <chrono>

#include "config/entries.hpp"
#include "config/section.hpp"

namespace dovetail::config {
namespace {

using namespace std::chrono_literals;

/// The settings of ServerOptions::webhooks.
class WebhookSection {
 public:
  explicit WebhookSection(Table& table) : table_(table) {}

  Setting& text(const char* key, std::string ServerWebhook::*member, const char* description) {
    auto& added = add(key, Kind::text, description);
    added.read = [member](const Settings& settings, const std::string& entry) {
      return Value{entry_named(settings.server.webhooks, entry).*member};
    };
    added.write = [member](Settings& settings, const std::string& entry, const Value& value) {
      entry_named(settings.server.webhooks, entry).*member = std::get<std::string>(value);
    };
    return added;
  }

  void tolerance(const char* description) {
    auto& added = add("tolerance", Kind::duration, description);
    added.range = {std::chrono::milliseconds{1s}.count(), std::chrono::milliseconds{1h}.count()};
    added.whole_seconds = true;
    added.read = [](const Settings& settings, const std::string& entry) {
      const auto held = entry_named(settings.server.webhooks, entry).tolerance;
      return Value{std::int64_t{std::chrono::milliseconds{held}.count()}};
    };
    added.write = [](Settings& settings, const std::string& entry, const Value& value) {
      const std::chrono::milliseconds given{std::get<std::int64_t>(value)};
      entry_named(settings.server.webhooks, entry).tolerance =
          std::chrono::duration_cast<std::chrono::seconds>(given);
    };
  }

 private:
  Setting& add(const char* key, Kind kind, const char* description) {
    Setting setting{.section = "webhooks.*", .key = key, .kind = kind, .description = description};
    setting.reloadable = true;
    setting.entries = [](const Settings& settings) {
      std::vector<std::string> names;
      for (const auto& each : settings.server.webhooks) names.push_back(each.name);
      return names;
    };
    return table_.emplace_back(std::move(setting));
  }

  Table& table_;
};

}  // namespace

void add_webhooks(Table& table) {
  WebhookSection webhooks(table);
  webhooks
      .text("secret", &ServerWebhook::secret,
            "Secrets (`whsec_…`) of `POST /webhooks/NAME`, separated by white space")
      .secret = Secret::whole;
  webhooks.text("topic", &ServerWebhook::topic,
                "The topic of the messages; empty: the header `ce-type` of each message");
  webhooks.tolerance("How far the timestamp of a request may be from the time of the server");
  webhooks.text("database", &ServerWebhook::database,
                "In a group: the key of the database whose inbox stores the messages");
}

}  // namespace dovetail::config
