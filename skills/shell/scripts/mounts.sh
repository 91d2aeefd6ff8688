# Sets up a mount namespace of one command: the workspace as it was, and a layer of limited size
# for the command's writes, whose limit the kernel enforces. No other process sees this namespace,
# and it ends by itself. Where the bot is root, the command's account cannot reach every folder that
# root can, so bubblewrap is mounted where it can. Inside, the mount table names nothing else.
#
# $1: the folder of bubblewrap's package, or empty. $2, $3: bytes and files of the layer.
# $4: the account of the command, or empty. $5: the folder of Agent Skills that the command sees, or
# empty. $6: that of Python packages, or empty. The rest: the program to start then.
set -e
[ -z "$1" ] || exec 3<"$1"
[ -z "$5" ] || exec 4<"$5"
[ -z "$6" ] || exec 5<"$6"
mount -t tmpfs -o mode=0755,size=64k,nosuid,nodev sandbox /mnt
mkdir /mnt/lower /mnt/layer /mnt/library /mnt/nothing /mnt/skills /mnt/python
mount --bind . /mnt/lower
[ -z "$1" ] || { mount -c --bind /proc/self/fd/3 /mnt/library; exec 3<&-; }
[ -z "$5" ] || { mount -c --bind /proc/self/fd/4 /mnt/skills; exec 4<&-; }
[ -z "$6" ] || { mount -c --bind /proc/self/fd/5 /mnt/python; exec 5<&-; }
mount -t tmpfs -o "size=$2,nr_inodes=$3,mode=0755,nosuid,nodev" layer /mnt/layer
mkdir -m 0700 /mnt/layer/up /mnt/layer/work
[ -z "$4" ] || chown "$4:$4" /mnt/layer/up /mnt/layer/work
unset OLDPWD PWD
shift 6
exec "$@"
