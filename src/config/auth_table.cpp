// Who may use the server: [auth], [auth.tokens.NAME], [auth.users.NAME].
#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "config/entries.hpp"
#include "config/section.hpp"

namespace dovetail::config {
namespace {

using namespace std::chrono_literals;

const Words<ServerRole> roles{{"viewer", ServerRole::viewer},
                              {"operator", ServerRole::operator_},
                              {"admin", ServerRole::admin}};

/// The settings of the entries of one list, such as ServerAuth::tokens.
template <class List>
class EntrySection {
 public:
  EntrySection(Table& table, std::string section, List ServerAuth::*list)
      : table_(table), section_(std::move(section)), list_(list) {}

  void secret(const char* key, std::string List::value_type::*member, const char* description,
              const std::function<void(const std::string&)>& rule) {
    auto setting = entry_setting(key, Kind::text, description);
    setting.secret = Secret::whole;
    setting.rule = rule;
    setting.read = [list = list_, member](const Settings& settings, const std::string& entry) {
      return Value{entry_named(settings.server.auth.*list, entry).*member};
    };
    setting.write = [list = list_, member](Settings& settings, const std::string& entry,
                                           const Value& value) {
      entry_named(settings.server.auth.*list, entry).*member = std::get<std::string>(value);
    };
    table_.push_back(std::move(setting));
  }

  void role(const char* description) {
    auto setting = entry_setting("role", Kind::word, description);
    for (const auto& [word, role] : roles) setting.words.push_back(word);
    setting.read = [list = list_](const Settings& settings, const std::string& entry) {
      const auto held = entry_named(settings.server.auth.*list, entry).role;
      return Value{std::ranges::find(roles, held, &Words<ServerRole>::value_type::second)->first};
    };
    setting.write = [list = list_](Settings& settings, const std::string& entry,
                                   const Value& value) {
      auto& target = entry_named(settings.server.auth.*list, entry).role;
      for (const auto& [word, role] : roles) {
        if (word == std::get<std::string>(value)) target = role;
      }
    };
    table_.push_back(std::move(setting));
  }

 private:
  Setting entry_setting(const char* key, Kind kind, const char* description) {
    Setting setting{.section = section_, .key = key, .kind = kind, .description = description};
    setting.reloadable = true;
    setting.entries = [list = list_](const Settings& settings) {
      std::vector<std::string> names;
      for (const auto& each : settings.server.auth.*list) names.push_back(each.name);
      return names;
    };
    return setting;
  }

  Table& table_;
  std::string section_;
  List ServerAuth::*list_;
};

void require_sha256(const std::string& text) {
  if (text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos) return;
  throw std::invalid_argument(
      "the SHA-256 of the token, as 64 hexadecimal digits in lower case (printf %s TOKEN | "
      "sha256sum)");
}

void require_password_hash(const std::string& text) {
  if (text.starts_with('$') && text.size() > 10) return;
  throw std::invalid_argument("a hash of crypt(5), such as $6$… or $y$… (openssl passwd -6)");
}

}  // namespace

void add_auth(Table& table) {
  Section auth(table, "auth");
  auth.duration("session_lifetime", 1s, 24h * 30,
                within(&Settings::server, &ServerOptions::auth, &ServerAuth::session_lifetime),
                "How long a login lasts");
  EntrySection tokens(table, "auth.tokens.*", &ServerAuth::tokens);
  tokens.role("What the owner of the token NAME may do");
  tokens.secret("sha256", &ServerToken::sha256,
                "The SHA-256 of the token, 64 hexadecimal digits: `printf %s TOKEN | sha256sum`",
                require_sha256);
  EntrySection users(table, "auth.users.*", &ServerAuth::users);
  users.role("What the user NAME may do");
  users.secret("password_hash", &ServerUser::password_hash,
               "The hash of the password: `openssl passwd -6`", require_password_hash);
}

}  // namespace dovetail::config
