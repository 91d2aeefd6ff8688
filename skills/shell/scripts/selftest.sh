# Prints what a command sees and can do, line by line, for the self-test of the sandbox. A single
# script with few programs, since it runs at every start of the bot.
while read -r line; do
    case $line in Cap*|NoNew*|Seccomp:*) echo "status $line" ;; esac
done </proc/self/status
while read -r name kind soft hard _; do
    [ "$name $kind" = "Max processes" ] && echo "limit $soft $hard"
done </proc/self/limits
while read -r line; do echo "uid_map $line"; done </proc/self/uid_map
while read -r name _; do echo "net $name"; done </proc/net/dev
for path in /* /proc/[0-9]*; do echo "sees $path"; done
for folder in / /usr /etc /dev /proc /run /skills /skills/tried; do
    (: >"$folder/tried") 2>/dev/null && echo "wrote $folder"
done
while read -r line; do echo "read $line"; done </skills/tried/SKILL.md
unshare --user true 2>/dev/null && echo "nested"
export | while read -r line; do echo "export ${line%%=*}"; done
rm -r folder && mkdir folder && : >folder/new && : >tried && echo "done"
