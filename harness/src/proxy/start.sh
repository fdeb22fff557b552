# Starts a program that can change nothing but its node: its network namespace, and the lab's /run.
# Runs as the first process of a PID namespace, in a mount namespace of its own; the arguments are the program and its own.
set -u

# Settings of the network stay writable. In a container whose /proc is masked, the kernel refuses a new one.
mount -t proc proc /proc 2>/dev/null
mount --bind /proc/sys/net /proc/sys/net 2>/dev/null
# Mount points are written with octal escapes.
while read -r _ folder _; do
    folder=$(printf '%b' "$folder")
    case $folder in
        /proc/sys/net | /run | /run/*) ;;
        *) mount -o remount,bind,ro "$folder" 2>/dev/null ;;
    esac
done </proc/self/mounts

# Without the rights to mount, to enter namespaces and to load modules, all of this stays so.
exec setpriv --bounding-set=-all,+net_admin,+net_raw,+net_bind_service --inh-caps=-all --no-new-privs -- "$@"
